//! Addresses of other processes in the network.
//!
//! The address of a rank is requested when the first message to it is sent, and never before: nothing at
//! start is all-to-all. The source of addresses depends on how the job was started (our daemon, PMIx, PMI),
//! so this is a trait.

use std::fmt;
use std::os::fd::BorrowedFd;

use tutti_sys::job::ADDRESS_BYTES;

/// Network address of a rank, understood only by the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    bytes: [u8; ADDRESS_BYTES],
    length: u8,
}

impl Address {
    /// Copies an address. Returns `None` for no bytes, and for more than [`ADDRESS_BYTES`].
    pub fn new(address: &[u8]) -> Option<Address> {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes.get_mut(..address.len())?.copy_from_slice(address);
        (!address.is_empty()).then_some(Address { bytes, length: address.len() as u8 })
    }

    /// Returns the bytes of the address.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.bytes()).finish()
    }
}

/// An answer: a rank, and where it is; `None` if it will never have an address, because it has ended.
pub type Answer = (u32, Option<Address>);

/// Source of the addresses of all ranks.
pub trait Directory: fmt::Debug + Send {
    /// Publishes the address of this process. Called once, before others request it.
    fn publish(&mut self, address: &Address);

    /// Requests the address of `rank`. Never blocks. A second request before the answer may be answered
    /// twice.
    fn request(&mut self, rank: u32);

    /// Returns the next answer, if one has come. Answers come in any order. Never blocks.
    fn poll(&mut self) -> Option<Answer>;

    /// Requests that `rank` connects to this process, which cannot connect to it. Returns false if calls are
    /// not supported. Never blocks.
    fn call(&mut self, _rank: u32) -> bool {
        false
    }

    /// Returns true if [`Directory::call`] works.
    fn can_call(&self) -> bool {
        false
    }

    /// Returns the next rank that had this process called, if any. Never blocks.
    fn called(&mut self) -> Option<u32> {
        None
    }

    /// Returns true if somebody collects which hosts have called [`Directory::report_arrival`].
    fn collects_arrivals(&self) -> bool {
        false
    }

    /// Reports that all ranks of this host have called MPI_Finalize. May be repeated. Never blocks.
    fn report_arrival(&mut self) {}

    /// Returns a descriptor that becomes readable when answers or calls may have come. A sleeper waits
    /// for it. `None` if answers are available at once.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: bool) {
        assert_eq!(
            Address::new(bytes).map(|address| address.bytes().to_vec()),
            expected.then(|| bytes.to_vec())
        );
    }

    #[test]
    fn addresses_have_some_bytes_and_not_too_many() {
        check(&[], false);
        check(&[1], true);
        check(&[7; ADDRESS_BYTES], true);
        check(&[7; ADDRESS_BYTES + 1], false);
    }
}
