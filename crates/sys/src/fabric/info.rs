//! Queries for endpoints, and the offers with which providers answer.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::ptr::null;

use super::library::{Library, library};
use super::raw::{self, API_VERSION, FabricInfo};
use super::{Error, Result, failed};

/// Kind of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// Reliable and ordered, between two endpoints that were connected (FI_EP_MSG).
    Connected = 1,
    /// Unreliable messages of limited length to any peer (FI_EP_DGRAM).
    Datagram = 2,
    /// Reliable messages to any peer, without connections (FI_EP_RDM).
    Reliable = 3,
}

/// Requirements on an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Name of the provider; empty: any.
    pub provider: &'a str,
    /// Required kind of endpoint.
    pub kind: EndpointKind,
    /// Numeric address of the interface to use; empty: any.
    pub source: &'a str,
    /// True if remote memory must be readable and writable.
    pub remote_access: bool,
}

/// Offer of an endpoint of one kind, by one provider, over one interface.
pub struct Info {
    raw: *mut FabricInfo,
    library: &'static Library,
}

impl Query<'_> {
    /// Returns all matching offers, best first.
    ///
    /// # Errors
    /// [`Error::NoProvider`] when there is none; errors of loading the library.
    pub fn run(&self) -> Result<Vec<Info>> {
        let library = library()?;
        // SAFETY: without an argument the function creates an empty description.
        let hints = Info { raw: unsafe { (library.dupinfo)(null()) }, library };
        if hints.raw.is_null() {
            return Err(failed(self.provider, "fi_dupinfo", libc::ENOMEM));
        }
        self.write(&hints);
        let source = CString::new(self.source).map_err(|_| self.none())?;
        let (node, flags) = match self.source {
            "" => (null(), 0),
            _ => (source.as_ptr(), raw::FI_SOURCE | raw::FI_NUMERICHOST),
        };
        let mut list = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call; the list is ours.
        let code = unsafe { (library.getinfo)(API_VERSION, node, null(), flags, hints.raw, &mut list) };
        if code != 0 || list.is_null() {
            return Err(self.none());
        }
        let mut offers = Vec::new();
        let mut entry = list;
        while !entry.is_null() {
            // SAFETY: entry is an element of the list, which lives until it is freed below.
            let (copy, next) = unsafe { ((library.dupinfo)(entry), (*entry).next) };
            if !copy.is_null() {
                offers.push(Info { raw: copy, library });
            }
            entry = next;
        }
        // SAFETY: the list came from getinfo and is not used after; the copies are independent of it.
        unsafe { (library.freeinfo)(list) };
        Ok(offers)
    }

    fn write(&self, hints: &Info) {
        let mut caps = raw::FI_MSG;
        let mut mr_mode = raw::FI_MR_LOCAL;
        if self.remote_access {
            caps |= raw::FI_RMA;
            mr_mode |=
                raw::FI_MR_VIRT_ADDR | raw::FI_MR_ALLOCATED | raw::FI_MR_PROV_KEY | raw::FI_MR_ENDPOINT;
        }
        // SAFETY: an empty description has all its attributes allocated; names are freed with it by free().
        unsafe {
            let info = &mut *hints.raw;
            info.caps = caps;
            info.mode = raw::FI_CONTEXT | raw::FI_CONTEXT2;
            (*info.ep_attr).kind = self.kind as i32;
            (*info.domain_attr).mr_mode = mr_mode;
            (*info.domain_attr).threading = raw::FI_THREAD_DOMAIN;
            if self.kind != EndpointKind::Datagram {
                (*info.tx_attr).msg_order = raw::FI_ORDER_SAS;
                (*info.rx_attr).msg_order = raw::FI_ORDER_SAS;
            }
            if let (false, Ok(name)) = (self.provider.is_empty(), CString::new(self.provider)) {
                (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
        }
    }

    fn none(&self) -> Error {
        let any = |text: &str| if text.is_empty() { "any".to_string() } else { text.to_string() };
        Error::NoProvider(format!(
            "{:?} endpoints (provider {}, interface {})",
            self.kind,
            any(self.provider),
            any(self.source)
        ))
    }
}

impl Info {
    /// Takes over an offer that libfabric created, for example with a connection request.
    ///
    /// # Safety
    /// `raw` is a complete description with no other owner.
    pub(super) unsafe fn owned(raw: *mut FabricInfo) -> Result<Info> {
        Ok(Info { raw, library: library()? })
    }

    pub(super) fn raw(&self) -> *mut FabricInfo {
        self.raw
    }

    /// Returns the name of the provider with its layers: `tcp`, `verbs;ofi_rxm`.
    pub fn provider(&self) -> String {
        // SAFETY: the attributes live as long as the description.
        unsafe { text((*(*self.raw).fabric_attr).prov_name) }
    }

    /// Returns the name of the provider's domain, usually that of a network interface.
    pub fn domain(&self) -> String {
        // SAFETY: as in provider.
        unsafe { text((*(*self.raw).domain_attr).name) }
    }

    /// Returns the address of the interface, in the provider's format.
    pub fn source_address(&self) -> &[u8] {
        // SAFETY: the description states where and how long the address is; it lives as long.
        unsafe {
            match (*self.raw).src_addr.cast::<u8>() {
                address if address.is_null() => &[],
                address => std::slice::from_raw_parts(address, (*self.raw).src_addrlen),
            }
        }
    }

    /// Returns true if remote memory can be read and written.
    pub fn accesses_remote_memory(&self) -> bool {
        // SAFETY: the description is whole.
        unsafe { (*self.raw).caps & raw::FI_RMA != 0 }
    }

    /// Returns the length of the longest message in bytes.
    pub fn max_message_bytes(&self) -> usize {
        // SAFETY: as in provider.
        unsafe { (*(*self.raw).ep_attr).max_msg_size }
    }

    /// Returns the length of the longest message of [`super::Endpoint::inject`] in bytes.
    pub fn inject_bytes(&self) -> usize {
        // SAFETY: as in provider.
        unsafe { (*(*self.raw).tx_attr).inject_size }
    }

    /// Returns the maximum number of pending sends and of pending receives.
    pub fn depths(&self) -> (usize, usize) {
        // SAFETY: as in provider.
        unsafe { ((*(*self.raw).tx_attr).size, (*(*self.raw).rx_attr).size) }
    }

    /// Returns the maximum number of memory pieces in one operation.
    pub fn pieces(&self) -> usize {
        // SAFETY: as in provider.
        unsafe { (*(*self.raw).tx_attr).iov_limit }
    }

    /// Returns true if several endpoints may share one queue of receives.
    pub fn has_shared_receive(&self) -> bool {
        // SAFETY: as in provider.
        unsafe { (*(*self.raw).domain_attr).max_ep_srx_ctx > 0 }
    }

    /// Returns true if remote memory is addressed by its virtual address there, not by an offset into its
    /// region.
    pub fn addresses_are_virtual(&self) -> bool {
        self.registration() & raw::FI_MR_VIRT_ADDR != 0
    }

    /// Returns true if memory that is sent from or received into must be registered.
    pub fn registers_local_memory(&self) -> bool {
        self.registration() & raw::FI_MR_LOCAL != 0
    }

    /// Returns true if a registration pins pages, so that a changed mapping makes it stale.
    pub fn registers_pages(&self) -> bool {
        self.registration() & raw::FI_MR_ALLOCATED != 0
    }

    /// Returns true if the provider chooses the keys of regions.
    pub fn chooses_keys(&self) -> bool {
        self.registration() & raw::FI_MR_PROV_KEY != 0
    }

    /// Returns true if a region must be bound to an endpoint.
    pub fn binds_regions(&self) -> bool {
        self.registration() & raw::FI_MR_ENDPOINT != 0
    }

    fn registration(&self) -> i32 {
        // SAFETY: as in provider.
        unsafe { (*(*self.raw).domain_attr).mr_mode }
    }

    pub(super) fn addresses_vectors(&self) -> i32 {
        // SAFETY: as in provider.
        unsafe { (*(*self.raw).domain_attr).av_type }
    }
}

impl Clone for Info {
    fn clone(&self) -> Info {
        // SAFETY: raw is a whole description.
        let raw = unsafe { (self.library.dupinfo)(self.raw) };
        assert!(!raw.is_null(), "no memory for a description of libfabric");
        Info { raw, library: self.library }
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: the description is ours and not used after.
        unsafe { (self.library.freeinfo)(self.raw) };
    }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.provider(), self.domain())
    }
}

/// # Safety
/// `start` is null or a terminated string.
unsafe fn text(start: *const c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: by the caller.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}
