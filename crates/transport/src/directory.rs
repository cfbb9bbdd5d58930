//! How a process learns where others are in the network.
//!
//! An address is asked for when the first message to a rank is sent, and never before: nothing at start is all-to-all.
//! Who answers is a matter of who started the job (a daemon of ours, PMIx, PMI), so this is a trait.

use std::fmt;
use std::os::fd::BorrowedFd;

use tutti_sys::job::ADDRESS_BYTES;

/// Where a rank is reached; only the fabric understands it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    bytes: [u8; ADDRESS_BYTES],
    length: u8,
}

impl Address {
    /// `None` for no bytes, and for more than [`ADDRESS_BYTES`].
    pub fn new(address: &[u8]) -> Option<Address> {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes.get_mut(..address.len())?.copy_from_slice(address);
        (!address.is_empty()).then_some(Address { bytes, length: address.len() as u8 })
    }

    /// The bytes of the address.
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

/// Knows the addresses of all ranks, or whom to ask.
pub trait Directory: fmt::Debug + Send {
    /// Makes the address of this process known; once, before it can be asked for.
    fn publish(&mut self, address: &Address);

    /// Asks for the address of `rank`; never blocks. Asked again before the answer, it may answer twice.
    fn request(&mut self, rank: u32);

    /// The next answer, if one has come; in any order. Never blocks.
    fn poll(&mut self) -> Option<Answer>;

    /// Has `rank` told that it has to connect to this process, which cannot connect to it; false if nobody
    /// can be asked for that. Never blocks.
    fn call(&mut self, _rank: u32) -> bool {
        false
    }

    /// Whether [`Directory::call`] works.
    fn can_call(&self) -> bool {
        false
    }

    /// The next rank that had this process called, if one has. Never blocks.
    fn called(&mut self) -> Option<u32> {
        None
    }

    /// Whether somebody collects which hosts have called [`Directory::report_arrival`].
    fn collects_arrivals(&self) -> bool {
        false
    }

    /// Reports that all ranks of this host have called MPI_Finalize. May be repeated. Never blocks.
    fn report_arrival(&mut self) {}

    /// What becomes readable when answers or calls may have come, for a sleeper to wait on; `None` when
    /// answers are there at once.
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
