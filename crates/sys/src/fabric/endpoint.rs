//! Endpoints (connected, datagram, reliable and listening ones), and shared queues of receives.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::info::Info;
use super::memory::{AddressVector, Domain, Fabric, PeerAddress, close};
use super::queue::{CompletionQueue, EventQueue};
use super::raw::{
    self, ConnectionOps, DomainOps, EndpointOps, FabricOps, Fid, FidEp, FidPep, MessageOps, OperationContext,
    RemoteOps, call,
};
use super::{Result, checked, failed, posted};

/// Maximum length of an endpoint's address in bytes.
const NAME_BYTES: usize = 256;

/// Returns the address of an endpoint.
///
/// # Safety
/// `fid` and `table` are those of an open endpoint.
unsafe fn name(fid: *mut Fid, table: *mut ConnectionOps, provider: &str) -> Result<Vec<u8>> {
    let mut address = [0u8; NAME_BYTES];
    let mut bytes = address.len();
    // SAFETY: the endpoint is open; the room is as large as stated.
    let code = unsafe { call!(table, ConnectionOps, getname(fid, address.as_mut_ptr().cast(), &mut bytes)) };
    checked(provider, "fi_getname", code)?;
    Ok(address[..bytes.min(NAME_BYTES)].to_vec())
}

/// # Safety
/// Both objects are open.
unsafe fn bind(fid: *mut Fid, other: *mut Fid, flags: u64, provider: &str) -> Result<()> {
    // SAFETY: by the caller.
    let code = unsafe { call!((*fid).ops, raw::FidOps, bind(fid, other, flags)) };
    checked(provider, "fi_ep_bind", code).map(|_| ())
}

/// Queue of receives that several endpoints share.
#[derive(Debug)]
pub struct SharedReceive {
    raw: NonNull<FidEp>,
    domain: Rc<Domain>,
}

impl SharedReceive {
    /// Creates an empty queue with room for `entries`.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn open(domain: &Rc<Domain>, entries: usize) -> Result<Rc<SharedReceive>> {
        let provider = domain.provider();
        let mut raw = null_mut();
        // SAFETY: the domain is open; the attributes are those of a whole description, with our size.
        let code = unsafe {
            let info = domain.info().clone();
            (*(*info.raw()).rx_attr).size = entries;
            let attributes = (*info.raw()).rx_attr;
            call!((*domain.raw()).ops, DomainOps, srx_ctx(domain.raw(), attributes, &mut raw, null_mut()))
        };
        checked(provider, "fi_srx_context", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(provider, "fi_srx_context", libc::ENOMEM))?;
        Ok(Rc::new(SharedReceive { raw, domain: domain.clone() }))
    }
}

impl Drop for SharedReceive {
    fn drop(&mut self) {
        // SAFETY: open until here; endpoints bound to it held it, and are gone.
        unsafe { close(self.raw.cast().as_ptr()) };
    }
}

/// Destination of receives: an endpoint, or a queue that many endpoints share.
pub trait Receiver {
    /// Posts a receive of up to `bytes` at `start`. Returns false if there was no room for it. `descriptor`
    /// is that of the memory's region where local memory must be registered, otherwise null.
    ///
    /// # Errors
    /// Errors of the provider.
    ///
    /// # Safety
    /// The memory and the context stay valid and untouched until the receive completes or its receiver is
    /// dropped.
    unsafe fn receive(
        &self,
        start: *mut u8,
        bytes: usize,
        descriptor: *mut c_void,
        context: *mut OperationContext,
    ) -> Result<bool>;
}

/// # Safety
/// As [`Receiver::receive`]; `endpoint` is open.
unsafe fn receive(
    endpoint: NonNull<FidEp>,
    provider: &str,
    (start, bytes): (*mut u8, usize),
    descriptor: *mut c_void,
    context: *mut OperationContext,
) -> Result<bool> {
    let endpoint = endpoint.as_ptr();
    // SAFETY: by the caller.
    let result = unsafe {
        call!(
            (*endpoint).msg,
            MessageOps,
            recv(endpoint, start.cast(), bytes, descriptor, raw::FI_ADDR_UNSPEC, context.cast())
        )
    };
    posted(provider, "fi_recv", result)
}

impl Receiver for SharedReceive {
    unsafe fn receive(
        &self,
        start: *mut u8,
        bytes: usize,
        descriptor: *mut c_void,
        context: *mut OperationContext,
    ) -> Result<bool> {
        // SAFETY: by the caller; the queue is open.
        unsafe { receive(self.raw, self.domain.provider(), (start, bytes), descriptor, context) }
    }
}

impl Receiver for Endpoint {
    unsafe fn receive(
        &self,
        start: *mut u8,
        bytes: usize,
        descriptor: *mut c_void,
        context: *mut OperationContext,
    ) -> Result<bool> {
        // SAFETY: by the caller; the endpoint is open.
        unsafe { receive(self.raw, self.domain.provider(), (start, bytes), descriptor, context) }
    }
}

/// Endpoint that listens for connection requests.
#[derive(Debug)]
pub struct PassiveEndpoint {
    raw: NonNull<FidPep>,
    fabric: Rc<Fabric>,
    /// Queue that reports the requests; kept alive by this reference.
    _events: Rc<EventQueue>,
}

impl PassiveEndpoint {
    /// Creates an endpoint that listens at the source address of an offer.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn listen(fabric: &Rc<Fabric>, info: &Info, events: &Rc<EventQueue>) -> Result<PassiveEndpoint> {
        let provider = fabric.provider();
        let mut raw = null_mut();
        // SAFETY: the fabric is open, the description whole.
        let code = unsafe {
            call!((*fabric.raw()).ops, FabricOps, passive_ep(fabric.raw(), info.raw(), &mut raw, null_mut()))
        };
        checked(provider, "fi_passive_ep", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(provider, "fi_passive_ep", libc::ENOMEM))?;
        let passive = PassiveEndpoint { raw, fabric: fabric.clone(), _events: events.clone() };
        // SAFETY: both objects are open.
        unsafe { bind(passive.fid(), events.fid(), 0, provider)? };
        // SAFETY: the endpoint is open.
        let code = unsafe { call!((*raw.as_ptr()).cm, ConnectionOps, listen(raw.as_ptr())) };
        checked(provider, "fi_listen", code)?;
        Ok(passive)
    }

    /// Returns the address to which peers connect.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn name(&self) -> Result<Vec<u8>> {
        // SAFETY: the endpoint is open.
        unsafe { name(self.fid(), self.raw.as_ref().cm, self.fabric.provider()) }
    }

    /// Refuses a connection request; `data` is sent with the refusal.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn reject(&self, request: &Info, data: &[u8]) -> Result<()> {
        // SAFETY: the endpoint is open. The handle belongs to a request without an answer; otherwise the
        // provider refuses it.
        let code = unsafe {
            let (passive, handle) = (self.raw.as_ptr(), (*request.raw()).handle);
            call!((*passive).cm, ConnectionOps, reject(passive, handle, data.as_ptr().cast(), data.len()))
        };
        checked(self.fabric.provider(), "fi_reject", code).map(|_| ())
    }

    fn fid(&self) -> *mut Fid {
        self.raw.cast().as_ptr()
    }
}

impl Drop for PassiveEndpoint {
    fn drop(&mut self) {
        // SAFETY: open until here.
        unsafe { close(self.fid()) };
    }
}

/// Endpoint that sends and receives.
#[derive(Debug)]
pub struct Endpoint {
    raw: NonNull<FidEp>,
    domain: Rc<Domain>,
    /// Objects that are bound to the endpoint. They are closed after it.
    _completions: Rc<CompletionQueue>,
    _events: Option<Rc<EventQueue>>,
    _addresses: Option<Rc<AddressVector>>,
    _shared: Option<Rc<SharedReceive>>,
}

impl Endpoint {
    /// Creates an endpoint of an offer, or of a request (see [`super::ConnectionChange`]), that can connect
    /// or accept.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn connected(
        domain: &Rc<Domain>,
        info: &Info,
        completions: &Rc<CompletionQueue>,
        events: &Rc<EventQueue>,
        shared: Option<&Rc<SharedReceive>>,
    ) -> Result<Endpoint> {
        let mut endpoint = Self::open(domain, info, completions)?;
        let (fid, provider) = (endpoint.fid(), domain.provider());
        // SAFETY: all objects are open.
        unsafe {
            bind(fid, events.fid(), 0, provider)?;
            if let Some(shared) = shared {
                bind(fid, shared.raw.cast().as_ptr(), 0, provider)?;
            }
        }
        endpoint._events = Some(events.clone());
        endpoint._shared = shared.cloned();
        endpoint.enable()?;
        Ok(endpoint)
    }

    /// Creates a datagram or reliable endpoint, which sends to all peers in `addresses`.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn unconnected(
        domain: &Rc<Domain>,
        completions: &Rc<CompletionQueue>,
        addresses: &Rc<AddressVector>,
    ) -> Result<Endpoint> {
        let mut endpoint = Self::open(domain, domain.info(), completions)?;
        // SAFETY: both objects are open.
        unsafe { bind(endpoint.fid(), addresses.fid(), 0, domain.provider())? };
        endpoint._addresses = Some(addresses.clone());
        endpoint.enable()?;
        Ok(endpoint)
    }

    fn open(domain: &Rc<Domain>, info: &Info, completions: &Rc<CompletionQueue>) -> Result<Endpoint> {
        let provider = domain.provider();
        let mut raw = null_mut();
        // SAFETY: the domain is open, the description whole.
        let code = unsafe {
            call!((*domain.raw()).ops, DomainOps, endpoint(domain.raw(), info.raw(), &mut raw, null_mut()))
        };
        checked(provider, "fi_endpoint", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(provider, "fi_endpoint", libc::ENOMEM))?;
        let endpoint = Endpoint {
            raw,
            domain: domain.clone(),
            _completions: completions.clone(),
            _events: None,
            _addresses: None,
            _shared: None,
        };
        // SAFETY: both objects are open.
        unsafe { bind(endpoint.fid(), completions.fid(), raw::FI_SEND | raw::FI_RECV, provider)? };
        Ok(endpoint)
    }

    fn enable(&self) -> Result<()> {
        let fid = self.fid();
        // SAFETY: the endpoint is open; enabling takes no argument.
        let code = unsafe { call!((*fid).ops, raw::FidOps, control(fid, raw::FI_ENABLE, null_mut())) };
        checked(self.domain.provider(), "fi_enable", code).map(|_| ())
    }

    /// Returns the number by which connection events identify this endpoint.
    pub fn identity(&self) -> usize {
        self.fid() as usize
    }

    /// Returns the address of this endpoint, for its peers.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn name(&self) -> Result<Vec<u8>> {
        // SAFETY: the endpoint is open.
        unsafe { name(self.fid(), self.raw.as_ref().cm, self.domain.provider()) }
    }

    /// Returns the number of bytes of private data that a connection request may carry.
    pub fn private_bytes(&self) -> usize {
        let (mut value, mut bytes) = (0usize, size_of::<usize>());
        // SAFETY: the endpoint is open; the option is a size_t.
        let code = unsafe {
            let start = (&raw mut value).cast::<c_void>();
            let table = self.raw.as_ref().ops;
            let (level, option) = (raw::FI_OPT_ENDPOINT, raw::FI_OPT_CM_DATA_SIZE);
            call!(table, EndpointOps, getopt(self.fid(), level, option, start, &mut bytes))
        };
        if code == Some(0) { value } else { 0 }
    }

    /// Requests a connection to the listener at `address`. The answer is an event.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn connect(&self, address: &[u8], data: &[u8]) -> Result<()> {
        // The provider reads as many bytes as its address format has, whatever length is passed.
        let mut whole = [0u8; NAME_BYTES];
        let bytes = address.len().min(NAME_BYTES);
        whole[..bytes].copy_from_slice(&address[..bytes]);
        // SAFETY: the endpoint is open; address and data are valid for the call.
        let code = unsafe {
            let endpoint = self.raw.as_ptr();
            let (address, data, bytes) = (whole.as_ptr().cast(), data.as_ptr().cast(), data.len());
            call!((*endpoint).cm, ConnectionOps, connect(endpoint, address, data, bytes))
        };
        checked(self.domain.provider(), "fi_connect", code).map(|_| ())
    }

    /// Accepts the request from which this endpoint was created. An event reports that the connection is
    /// established.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn accept(&self, data: &[u8]) -> Result<()> {
        // SAFETY: the endpoint is open; the data are valid for the call.
        let code = unsafe {
            let endpoint = self.raw.as_ptr();
            call!((*endpoint).cm, ConnectionOps, accept(endpoint, data.as_ptr().cast(), data.len()))
        };
        checked(self.domain.provider(), "fi_accept", code).map(|_| ())
    }

    /// Ends the connection in an orderly way.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn shutdown(&self) -> Result<()> {
        // SAFETY: the endpoint is open.
        let code = unsafe {
            let endpoint = self.raw.as_ptr();
            call!((*endpoint).cm, ConnectionOps, shutdown(endpoint, 0))
        };
        checked(self.domain.provider(), "fi_shutdown", code).map(|_| ())
    }

    /// Posts a send. Returns false if there was no room for it.
    ///
    /// # Errors
    /// Errors of the provider.
    ///
    /// # Safety
    /// The bytes and the context stay valid and untouched until the send completes or the endpoint is
    /// dropped.
    #[inline]
    pub unsafe fn send(
        &self,
        to: PeerAddress,
        start: *const u8,
        bytes: usize,
        descriptor: *mut c_void,
        context: *mut OperationContext,
    ) -> Result<bool> {
        // SAFETY: by the caller; the endpoint is open.
        let result = unsafe {
            let endpoint = self.raw.as_ptr();
            call!(
                (*endpoint).msg,
                MessageOps,
                send(endpoint, start.cast(), bytes, descriptor, to.0, context.cast())
            )
        };
        posted(self.domain.provider(), "fi_send", result)
    }

    /// Sends at most [`Info::inject_bytes`] bytes, which may be reused at once. Returns false if there was
    /// no room. No completion is reported.
    ///
    /// # Errors
    /// Errors of the provider.
    #[inline]
    pub fn inject(&self, to: PeerAddress, bytes: &[u8]) -> Result<bool> {
        // SAFETY: the endpoint is open; the bytes are valid for the call, which copies them.
        let result = unsafe {
            let endpoint = self.raw.as_ptr();
            call!((*endpoint).msg, MessageOps, inject(endpoint, bytes.as_ptr().cast(), bytes.len(), to.0))
        };
        posted(self.domain.provider(), "fi_inject", result)
    }

    /// Posts a send of several pieces, at most [`Info::pieces`]. Returns false if there was no room for it.
    ///
    /// # Errors
    /// Errors of the provider.
    ///
    /// # Safety
    /// As [`Endpoint::send`], for every piece; `descriptors` has one for each piece, or none.
    pub unsafe fn send_pieces(
        &self,
        to: PeerAddress,
        pieces: &[(*const u8, usize)],
        descriptors: &mut [*mut c_void],
        context: *mut OperationContext,
    ) -> Result<bool> {
        let (mut room, count) = vectors(pieces.iter().map(|&(start, bytes)| (start.cast_mut(), bytes)));
        // SAFETY: by the caller; the endpoint is open; the provider copies the list of pieces.
        let result = unsafe {
            let endpoint = self.raw.as_ptr();
            let (list, descriptors) = (room.as_mut_ptr(), pointer(descriptors));
            call!(
                (*endpoint).msg,
                MessageOps,
                sendv(endpoint, list, descriptors, count, to.0, context.cast())
            )
        };
        posted(self.domain.provider(), "fi_sendv", result)
    }

    /// Posts a read of remote memory into several pieces, at most [`Info::pieces`]. Returns false if there
    /// was no room.
    ///
    /// # Errors
    /// Errors of the provider.
    ///
    /// # Safety
    /// The pieces and the context stay valid and untouched until the read completes or the endpoint is
    /// dropped.
    pub unsafe fn read_remote(
        &self,
        from: PeerAddress,
        pieces: &[(*mut u8, usize)],
        descriptors: &mut [*mut c_void],
        (address, key): (u64, u64),
        context: *mut OperationContext,
    ) -> Result<bool> {
        let (mut room, count) = vectors(pieces.iter().copied());
        // SAFETY: by the caller; the endpoint is open; the provider copies the list of pieces.
        let result = unsafe {
            let endpoint = self.raw.as_ptr();
            let (list, descriptors) = (room.as_mut_ptr(), pointer(descriptors));
            call!(
                (*endpoint).rma,
                RemoteOps,
                readv(endpoint, list, descriptors, count, from.0, address, key, context.cast())
            )
        };
        posted(self.domain.provider(), "fi_readv", result)
    }

    /// Posts a write of several pieces, at most [`Info::pieces`], to remote memory. Returns false if there
    /// was no room.
    ///
    /// # Errors
    /// Errors of the provider.
    ///
    /// # Safety
    /// As [`Endpoint::send`], for every piece.
    pub unsafe fn write_remote(
        &self,
        to: PeerAddress,
        pieces: &[(*const u8, usize)],
        descriptors: &mut [*mut c_void],
        (address, key): (u64, u64),
        context: *mut OperationContext,
    ) -> Result<bool> {
        let (mut room, count) = vectors(pieces.iter().map(|&(start, bytes)| (start.cast_mut(), bytes)));
        // SAFETY: by the caller; the endpoint is open; the provider copies the list of pieces.
        let result = unsafe {
            let endpoint = self.raw.as_ptr();
            let (list, descriptors) = (room.as_mut_ptr(), pointer(descriptors));
            call!(
                (*endpoint).rma,
                RemoteOps,
                writev(endpoint, list, descriptors, count, to.0, address, key, context.cast())
            )
        };
        posted(self.domain.provider(), "fi_writev", result)
    }

    pub(super) fn fid(&self) -> *mut Fid {
        self.raw.cast().as_ptr()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: open until here.
        unsafe { close(self.fid()) };
    }
}

/// Maximum number of pieces in one operation.
pub const PIECES: usize = 16;

fn vectors(pieces: impl Iterator<Item = (*mut u8, usize)>) -> ([libc::iovec; PIECES], usize) {
    let mut room = [libc::iovec { iov_base: null_mut(), iov_len: 0 }; PIECES];
    let mut count = 0;
    for (start, bytes) in pieces {
        assert!(count < PIECES, "more pieces than any provider takes");
        room[count] = libc::iovec { iov_base: start.cast(), iov_len: bytes };
        count += 1;
    }
    (room, count)
}

fn pointer(descriptors: &mut [*mut c_void]) -> *mut *mut c_void {
    if descriptors.is_empty() { null_mut() } else { descriptors.as_mut_ptr() }
}
