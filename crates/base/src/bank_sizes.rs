//! Sizes of the banks of collectives (S1). The process that creates the job object of a node decides them, so
//! that members of a communicator agree on all addresses, whatever their environments contain.

/// Sizes in bytes and numbers of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BankSizes {
    /// Address room for the banks of all communicators of the node. Memory is taken only where it is touched.
    pub area_bytes: u64,
    /// Payload of a large slot of one member; 0: by the number of members.
    pub large_bytes: u64,
    /// Payload of a small slot of one member.
    pub small_bytes: u64,
    /// Number of small slots: a power of two, at most 128. Where ranks share processors, ranks that need not
    /// wait run ahead until all slots are taken. So each doubling halves the process switches of a small
    /// rooted operation.
    pub small_slots: u32,
    /// Large slots: a power of two, at most 64.
    pub large_slots: u32,
}

impl BankSizes {
    /// Most slots of a bank: the word that records completed operations cannot distinguish more.
    pub const MAX_SLOTS: u32 = 128;

    /// Longest payload of a large slot in bytes. A member's part of a bank must stay below 4 GiB, as offsets
    /// in it have 32 bits.
    pub const MOST_LARGE_BYTES: u64 = 128 << 20;
    /// Longest payload of a small slot.
    pub const MOST_SMALL_BYTES: u64 = 1 << 20;
    /// Most address room for all banks of a node.
    pub const MOST_AREA_BYTES: u64 = 1 << 44;

    /// Returns the sizes that settings request, on a node with `ranks` ranks. `None` stands for a default
    /// that depends on their number.
    pub fn new(
        area_bytes: Option<u64>,
        large_bytes: Option<u64>,
        small_bytes: u64,
        small_slots: u64,
        ranks: u32,
    ) -> BankSizes {
        // Some hundreds of communicators of all ranks.
        let generous = (u64::from(ranks) << 31).clamp(32 << 30, 512 << 30);
        BankSizes {
            area_bytes: area_bytes.unwrap_or(generous).min(Self::MOST_AREA_BYTES),
            large_bytes: large_bytes
                .map_or(0, |bytes| bytes.clamp(4096, Self::MOST_LARGE_BYTES).next_multiple_of(4096)),
            small_bytes: small_bytes.clamp(64, Self::MOST_SMALL_BYTES).next_multiple_of(64),
            small_slots: small_slots.clamp(2, u64::from(Self::MAX_SLOTS)).next_power_of_two() as u32,
            large_slots: 16,
        }
    }

    /// Returns the payload in bytes of a large slot of one member, if the bank has `members` members. Without
    /// a setting, the slots of all members together take at most 8 MiB, which a shared cache may hold. A slot
    /// has at least 16 KiB, as the cost of single steps dominates below.
    pub fn large_bytes_for(&self, members: u32) -> u64 {
        match self.large_bytes {
            0 => ((8 << 20) / u64::from(members.max(1))).clamp(16 << 10, 256 << 10).next_multiple_of(4096),
            stated => stated,
        }
    }
}

impl Default for BankSizes {
    fn default() -> BankSizes {
        BankSizes::new(None, None, 4096, 128, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(members: u32, expected_kib: u64) {
        assert_eq!(BankSizes::default().large_bytes_for(members), expected_kib << 10, "{members} members");
    }

    #[test]
    fn large_banks_shrink_with_the_number_of_members() {
        for (members, kib) in [(1, 256), (2, 256), (32, 256), (33, 252), (64, 128), (300, 28), (4000, 16)] {
            check(members, kib);
        }
    }

    #[test]
    fn what_is_asked_for_is_made_possible() {
        let sizes = BankSizes::new(Some(0), Some(5000), 100, 33, 4);
        assert_eq!((sizes.area_bytes, sizes.large_bytes, sizes.small_bytes), (0, 8192, 128));
        assert_eq!((sizes.small_slots, sizes.large_slots), (64, 16));
        assert_eq!(BankSizes::new(None, None, 4096, 1000, 100).small_slots, 128);
        assert_eq!(BankSizes::new(None, None, 4096, 0, 100).area_bytes, 200 << 30);
    }
}
