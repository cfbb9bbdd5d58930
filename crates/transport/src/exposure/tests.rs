//! Owner and peer in two processes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::ptr;

use super::*;

mod mapped;
mod processes;

/// Reads through the window of every layout what the same process exposes.
fn check(rows: &[(usize, usize)]) {
    let mut memory: Vec<u8> = (0..100_000u32).map(|index| (index % 251) as u8).collect();
    let base = memory.as_mut_ptr();
    let mut exposures = Exposures::new(&Config::default());
    let mut table = vec![Entry::default(); rows.len()];
    let lent = || rows.iter().map(|&(offset, bytes)| (base.wrapping_add(offset), bytes as u64));
    // SAFETY: the table has as many rows.
    let record = unsafe { exposures.expose_entries(lent(), None, table.as_mut_ptr(), Access::Read, None) };
    // SAFETY: the table of the record.
    let window = unsafe { exposures.open(Peer(0), &record, ptr::null(), table.as_ptr()) };
    for (index, &(offset, bytes)) in rows.iter().enumerate() {
        let entry = window.entry(index as u32);
        assert_eq!(entry.bytes(), bytes as u64);
        assert_eq!(read(&entry, 0, bytes), memory[offset..offset + bytes]);
    }
    exposures.withdraw(&record);

    // SAFETY: as above.
    let record = unsafe { exposures.expose_runs(lent(), table.as_mut_ptr(), Access::ReadWrite, None) };
    // SAFETY: the table of the record.
    let window = unsafe { exposures.open(Peer(0), &record, ptr::null(), table.as_ptr()) };
    let packed: Vec<u8> =
        rows.iter().flat_map(|&(offset, bytes)| &memory[offset..offset + bytes]).copied().collect();
    assert_eq!(window.bytes(), packed.len() as u64);
    let (third, rest) = (packed.len() / 3, packed.len() - packed.len() / 3);
    assert_eq!(read(&window, 0, packed.len()), packed);
    assert_eq!(read(&window, third as u64, rest), packed[third..]);
    let mine = vec![255u8; rest];
    // SAFETY: as many bytes as stated; the memory is exposed for writing.
    unsafe { window.write(third as u64, mine.as_ptr(), rest as u64) }.unwrap();
    assert_eq!(read(&window, 0, third), packed[..third]);
    assert!(read(&window, third as u64, rest).iter().all(|&byte| byte == 255));
    exposures.withdraw(&record);
}

fn read(window: &Window, offset: u64, bytes: usize) -> Vec<u8> {
    let mut target = vec![0u8; bytes];
    // SAFETY: as many bytes as stated.
    unsafe { window.read(offset, target.as_mut_ptr(), bytes as u64) }.unwrap();
    target
}

#[test]
fn entries_and_runs_are_found() {
    check(&[]);
    check(&[(0, 100_000)]);
    check(&[(500, 0), (7, 9), (60_000, 30_000), (100, 5000), (0, 0)]);
    check(&(0..300).map(|index| (index * 300, index)).collect::<Vec<_>>());
}
