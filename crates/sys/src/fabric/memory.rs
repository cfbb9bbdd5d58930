//! Fabrics, domains and the objects of a domain: address vectors and registered memory.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::info::Info;
use super::library::library;
use super::raw::{
    self, AddressVectorOps, DomainOps, FabricOps, Fid, FidAv, FidDomain, FidFabric, FidMr, RegionOps, call,
};
use super::{Result, checked, failed};

/// Closes an object.
///
/// # Safety
/// `fid` is an open object of libfabric that is not used after.
pub(super) unsafe fn close(fid: *mut Fid) {
    // SAFETY: every object has its table. A refusal (busy) leaks the object, which is safe.
    unsafe { call!((*fid).ops, raw::FidOps, close(fid)) };
}

/// Provider that is opened for one network.
#[derive(Debug)]
pub struct Fabric {
    raw: NonNull<FidFabric>,
    provider: String,
}

impl Fabric {
    /// Opens the provider and network of an offer.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn open(info: &Info) -> Result<Rc<Fabric>> {
        let (library, provider) = (library()?, info.provider());
        let mut raw = null_mut();
        // SAFETY: the attributes are those of a whole description.
        let code = unsafe { (library.fabric)((*info.raw()).fabric_attr, &mut raw, null_mut()) };
        checked(&provider, "fi_fabric", Some(code))?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(&provider, "fi_fabric", libc::ENOMEM))?;
        Ok(Rc::new(Fabric { raw, provider }))
    }

    /// Returns the name of the provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    pub(super) fn raw(&self) -> *mut FidFabric {
        self.raw.as_ptr()
    }

    /// Returns true if the process may sleep on the descriptors of these objects: no event is pending in
    /// them.
    pub(super) fn may_wait(&self, objects: &mut [*mut Fid]) -> Result<bool> {
        let count = objects.len() as i32;
        // SAFETY: the objects are open ones of this fabric, by the callers in this module's parent.
        let result =
            unsafe { call!((*self.raw()).ops, FabricOps, trywait(self.raw(), objects.as_mut_ptr(), count)) };
        match result {
            Some(code) if code == -libc::EAGAIN => Ok(false),
            other => checked(&self.provider, "fi_trywait", other).map(|_| true),
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // SAFETY: open until here; objects made from it held it, and are gone.
        unsafe { close(self.raw.cast().as_ptr()) };
    }
}

/// Interface of a fabric, with the objects opened on it.
#[derive(Debug)]
pub struct Domain {
    raw: NonNull<FidDomain>,
    fabric: Rc<Fabric>,
    info: Info,
    next_key: Cell<u64>,
}

impl Domain {
    /// Opens the interface of an offer.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn open(fabric: &Rc<Fabric>, info: &Info) -> Result<Rc<Domain>> {
        let mut raw = null_mut();
        // SAFETY: the fabric is open, the description whole.
        let code = unsafe {
            call!((*fabric.raw()).ops, FabricOps, domain(fabric.raw(), info.raw(), &mut raw, null_mut()))
        };
        checked(&fabric.provider, "fi_domain", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(&fabric.provider, "fi_domain", libc::ENOMEM))?;
        let (fabric, info) = (fabric.clone(), info.clone());
        Ok(Rc::new(Domain { raw, fabric, info, next_key: Cell::new(1) }))
    }

    /// Returns the fabric of this domain.
    pub fn fabric(&self) -> &Rc<Fabric> {
        &self.fabric
    }

    /// Returns the offer from which the domain was opened.
    pub fn info(&self) -> &Info {
        &self.info
    }

    pub(super) fn raw(&self) -> *mut FidDomain {
        self.raw.as_ptr()
    }

    pub(super) fn provider(&self) -> &str {
        &self.fabric.provider
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: open until here; objects made from it held it, and are gone.
        unsafe { close(self.raw.cast().as_ptr()) };
    }
}

/// Number of a peer in an address vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub(super) u64);

impl PeerAddress {
    /// Number for the only peer of a connected endpoint, or for any sender.
    pub const UNSPECIFIED: PeerAddress = PeerAddress(raw::FI_ADDR_UNSPEC);
}

/// Table of the addresses of peers.
#[derive(Debug)]
pub struct AddressVector {
    raw: NonNull<FidAv>,
    domain: Rc<Domain>,
}

impl AddressVector {
    /// Creates a table without peers.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn open(domain: &Rc<Domain>) -> Result<Rc<AddressVector>> {
        let mut attributes = raw::AddressVectorAttributes {
            kind: match domain.info.addresses_vectors() {
                0 => raw::FI_AV_MAP,
                stated => stated,
            },
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: std::ptr::null(),
            map_addr: null_mut(),
            flags: 0,
        };
        let mut raw = null_mut();
        // SAFETY: the domain is open, the attributes are whole.
        let code = unsafe {
            call!(
                (*domain.raw()).ops,
                DomainOps,
                av_open(domain.raw(), &mut attributes, &mut raw, null_mut())
            )
        };
        checked(domain.provider(), "fi_av_open", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(domain.provider(), "fi_av_open", libc::ENOMEM))?;
        Ok(Rc::new(AddressVector { raw, domain: domain.clone() }))
    }

    /// Adds a peer by the address of its endpoint ([`super::Endpoint::name`]).
    ///
    /// # Errors
    /// The provider's error, for example for an invalid address.
    pub fn insert(&self, address: &[u8]) -> Result<PeerAddress> {
        // The provider reads as many bytes as its address format has, whatever length is passed.
        let mut whole = [0u8; 256];
        let bytes = address.len().min(whole.len());
        whole[..bytes].copy_from_slice(&address[..bytes]);
        let mut number = raw::FI_ADDR_UNSPEC;
        // SAFETY: the vector is open; address and number are valid for the call.
        let count = unsafe {
            let av = self.raw.as_ptr();
            call!(
                (*av).ops,
                AddressVectorOps,
                insert(av, whole.as_ptr().cast(), 1, &mut number, 0, null_mut())
            )
        };
        match checked(self.domain.provider(), "fi_av_insert", count)? {
            1 => Ok(PeerAddress(number)),
            _ => Err(failed(self.domain.provider(), "fi_av_insert", libc::EADDRNOTAVAIL)),
        }
    }

    /// Removes a peer from the table.
    pub fn remove(&self, peer: PeerAddress) {
        let mut number = peer.0;
        // SAFETY: the vector is open. A refusal leaves the peer known, which is harmless.
        unsafe {
            let av = self.raw.as_ptr();
            call!((*av).ops, AddressVectorOps, remove(av, &mut number, 1, 0));
        }
    }

    pub(super) fn fid(&self) -> *mut Fid {
        self.raw.cast().as_ptr()
    }
}

impl Drop for AddressVector {
    fn drop(&mut self) {
        // SAFETY: open until here; endpoints bound to it held it, and are gone.
        unsafe { close(self.fid()) };
    }
}

/// Permitted uses of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Source or destination of messages, and destination of reads of remote memory.
    Local,
    /// Memory that peers may read.
    RemoteRead,
    /// Memory that peers may write.
    RemoteWrite,
}

/// Memory registered with a domain.
#[derive(Debug)]
pub struct RegisteredRegion {
    raw: NonNull<FidMr>,
    domain: Rc<Domain>,
}

impl RegisteredRegion {
    /// Registers `bytes` at `start`. `endpoint` is the one to bind to, where the provider binds regions to
    /// endpoints.
    ///
    /// # Errors
    /// The provider's error, for example too much locked memory.
    ///
    /// # Safety
    /// With [`Rights::RemoteRead`] and [`Rights::RemoteWrite`], peers that know the key may access the
    /// memory until the region is dropped. It must stay mapped so long, and its owner must expect these
    /// accesses.
    pub unsafe fn register(
        domain: &Rc<Domain>,
        start: *const u8,
        bytes: usize,
        rights: Rights,
        endpoint: Option<&super::Endpoint>,
    ) -> Result<RegisteredRegion> {
        let access = match rights {
            Rights::Local => raw::FI_SEND | raw::FI_RECV | raw::FI_READ | raw::FI_WRITE,
            Rights::RemoteRead => raw::FI_REMOTE_READ | raw::FI_SEND,
            Rights::RemoteWrite => raw::FI_REMOTE_WRITE | raw::FI_RECV,
        };
        let key = domain.next_key.replace(domain.next_key.get() + 1);
        let mut raw = null_mut();
        // SAFETY: the domain is open; registration reads nothing of the memory itself.
        let code = unsafe {
            let fid: *mut Fid = domain.raw().cast();
            call!(
                (*domain.raw()).mr,
                RegionOps,
                reg(fid, start.cast::<c_void>(), bytes, access, 0, key, 0, &mut raw, null_mut())
            )
        };
        checked(domain.provider(), "fi_mr_reg", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(domain.provider(), "fi_mr_reg", libc::ENOMEM))?;
        let region = RegisteredRegion { raw, domain: domain.clone() };
        if let (true, Some(endpoint)) = (domain.info.binds_regions(), endpoint) {
            region.bind(endpoint)?;
        }
        Ok(region)
    }

    fn bind(&self, endpoint: &super::Endpoint) -> Result<()> {
        let fid: *mut Fid = self.raw.cast().as_ptr();
        // SAFETY: both objects are open.
        let bound = unsafe { call!((*fid).ops, raw::FidOps, bind(fid, endpoint.fid(), 0)) };
        checked(self.domain.provider(), "fi_mr_bind", bound)?;
        // SAFETY: the object is open; enabling takes no argument.
        let enabled = unsafe { call!((*fid).ops, raw::FidOps, control(fid, raw::FI_ENABLE, null_mut())) };
        checked(self.domain.provider(), "fi_mr_enable", enabled).map(|_| ())
    }

    /// Returns the key with which peers access the memory.
    pub fn key(&self) -> u64 {
        // SAFETY: the object is open.
        unsafe { self.raw.as_ref().key }
    }

    /// Returns the descriptor to pass to local operations on the memory.
    pub fn descriptor(&self) -> *mut c_void {
        // SAFETY: the object is open.
        unsafe { self.raw.as_ref().mem_desc }
    }
}

impl Drop for RegisteredRegion {
    fn drop(&mut self) {
        // SAFETY: open until here.
        unsafe { close(self.raw.cast().as_ptr()) };
    }
}
