//! Compression of blocks (Zstandard), where that is faster than the disk. Bytes are compressed as they are,
//! or transposed: first bytes of all numbers, then second bytes of all. Arrays of numbers are smaller in this
//! order.
//!
//! Compression is tried on a block now and then. It pays if it took less time than the disk takes for the
//! bytes saved. The result holds for the blocks that follow. After a failed trial the next one comes later
//! and later. Thus the compressor never delays a disk that is faster.

use std::io;
use std::time::{Duration, Instant};

use zstd::bulk::{Compressor, Decompressor};

/// Widths of numbers whose bytes are transposed; with 1 they stay in order.
const WIDTHS: [u8; 3] = [1, 8, 4];
/// Level of Zstandard: the fastest regular one. Higher levels are slower, and the results hardly smaller
/// here.
const LEVEL: i32 = 1;
/// Number of blocks for which a choice holds: at first, and at most after failed trials.
const HOLDS: [u32; 2] = [64, 4096];

/// Rule by which blocks are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Packing {
    /// Packs no block.
    #[default]
    Never,
    /// Packs every block that becomes smaller by it.
    Always,
    /// Packs where that is faster than a disk of this rate, in bytes per second.
    Faster(f64),
}

/// Compressor for the blocks of one file, with the choice that holds now.
pub struct Packer {
    packing: Packing,
    /// Width for the blocks that follow; None if they are not packed. `holds` counts the blocks that are
    /// left.
    width: Option<u8>,
    holds: u32,
    next: u32,
    compressor: Option<Compressor<'static>>,
    transposed: Vec<u8>,
    packed: Vec<u8>,
    best: Vec<u8>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("packing", &self.packing).field("width", &self.width).finish()
    }
}

impl Packer {
    /// Creates the packer of one file.
    pub fn new(packing: Packing) -> Packer {
        let compressor = match packing {
            Packing::Never => None,
            // If the compressor cannot be created, blocks are written unchanged.
            _ => Compressor::new(LEVEL).ok(),
        };
        Packer {
            packing,
            width: None,
            holds: 0,
            next: HOLDS[0],
            compressor,
            transposed: Vec::new(),
            packed: Vec::new(),
            best: Vec::new(),
        }
    }

    /// Returns the width by which the bytes were transposed, and the packed bytes; None if the block should
    /// be stored unchanged.
    pub fn pack(&mut self, bytes: &[u8]) -> Option<(u8, &[u8])> {
        self.compressor.as_ref()?;
        if self.holds == 0 {
            return self.try_out(bytes);
        }
        self.holds -= 1;
        let width = self.width?;
        self.compress(bytes, width)?;
        is_smaller(bytes.len(), self.packed.len()).then_some((width, &self.packed[..]))
    }

    /// Tries all widths on a block, and decides for the blocks that follow.
    fn try_out(&mut self, bytes: &[u8]) -> Option<(u8, &[u8])> {
        let mut found: Option<(u8, Duration)> = None;
        for width in WIDTHS {
            let begun = Instant::now();
            self.compress(bytes, width)?;
            let took = begun.elapsed();
            let so_far = if found.is_some() { self.best.len() } else { bytes.len() };
            if is_smaller(bytes.len(), self.packed.len()) && self.packed.len() < so_far {
                std::mem::swap(&mut self.best, &mut self.packed);
                found = Some((width, took));
            }
        }
        let found = found.filter(|(_, took)| pays(self.packing, bytes.len(), self.best.len(), *took));
        self.width = found.map(|(width, _)| width);
        self.next = if found.is_some() { HOLDS[0] } else { (self.next * 2).min(HOLDS[1]) };
        self.holds = self.next;
        found.map(|(width, _)| (width, &self.best[..]))
    }

    /// Compresses bytes to `packed`, transposed by `width`. Returns None on failure.
    fn compress(&mut self, bytes: &[u8], width: u8) -> Option<()> {
        let source = match width {
            1 => bytes,
            _ => {
                transpose(bytes, width.into(), &mut self.transposed);
                &self.transposed
            }
        };
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(source.len()));
        self.compressor.as_mut()?.compress_to_buffer(source, &mut self.packed).ok().map(drop)
    }
}

/// Returns true if a block became smaller by more than a sixteenth. A smaller gain does not pay for the time
/// of unpacking.
fn is_smaller(plain: usize, packed: usize) -> bool {
    packed < plain - plain / 16
}

/// Returns true if packing `plain` bytes into `packed` ones took less time than the disk takes for the
/// difference.
fn pays(packing: Packing, plain: usize, packed: usize, took: Duration) -> bool {
    match packing {
        Packing::Never => false,
        Packing::Always => true,
        Packing::Faster(rate) => took.as_secs_f64() * rate < (plain - packed) as f64,
    }
}

/// Unpacks bytes that [`Packer::pack`] returned. `room` has the length of the unpacked block.
///
/// # Errors
/// Fails if the bytes are not a packed block of this length and width.
pub fn unpack(packed: &[u8], width: u8, room: &mut [u8]) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it cannot be unpacked");
    if !WIDTHS.contains(&width) {
        return Err(wrong());
    }
    let plain = Decompressor::new()?.decompress(packed, room.len()).map_err(|_| wrong())?;
    if plain.len() != room.len() {
        return Err(wrong());
    }
    transpose_back(&plain, width.into(), room);
    Ok(())
}

/// Checks with arbitrary bytes, for fuzzing, that unpacking returns and that packed bytes are restored.
pub fn fuzz(input: &[u8]) {
    let Some((&width, bytes)) = input.split_first() else { return };
    let mut room = vec![0; 4096];
    let _ = unpack(bytes, width, &mut room);
    let bytes = &bytes[..bytes.len().min(1 << 16)];
    if let Some((width, packed)) = Packer::new(Packing::Always).pack(bytes) {
        let mut room = vec![0; bytes.len()];
        let unpacked = unpack(packed, width, &mut room);
        assert!(unpacked.is_ok() && room == bytes);
    }
}

/// Puts the first bytes of all numbers first, then the second bytes, etc. Bytes that remain after the
/// last whole number stay at the end.
fn transpose(bytes: &[u8], width: usize, room: &mut Vec<u8>) {
    let count = bytes.len() / width;
    room.resize(bytes.len(), 0);
    for (which, lane) in room[..count * width].chunks_exact_mut(count.max(1)).enumerate() {
        for (byte, number) in lane.iter_mut().zip(bytes.chunks_exact(width)) {
            *byte = number[which];
        }
    }
    room[count * width..].copy_from_slice(&bytes[count * width..]);
}

fn transpose_back(bytes: &[u8], width: usize, room: &mut [u8]) {
    let count = bytes.len() / width;
    for (which, lane) in bytes[..count * width].chunks_exact(count.max(1)).enumerate() {
        for (byte, number) in lane.iter().zip(room.chunks_exact_mut(width)) {
            number[which] = *byte;
        }
    }
    room[count * width..].copy_from_slice(&bytes[count * width..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers that grow slowly, which compress only if their bytes are transposed.
    fn smooth(count: u64) -> Vec<u8> {
        (0..count).flat_map(|at| ((at as f64 * 1e-4).sin()).to_le_bytes()).collect()
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    /// Checks the width by which the first block is transposed; None if it stays plain.
    fn check(packing: Packing, bytes: &[u8], expected: Option<u8>) {
        let mut packer = Packer::new(packing);
        for _ in 0..3 {
            let found = packer.pack(bytes).map(|(width, packed)| {
                let mut room = vec![0; bytes.len()];
                unpack(packed, width, &mut room).unwrap();
                assert!(room == bytes);
                width
            });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn blocks_are_packed_where_it_pays() {
        check(Packing::Never, &smooth(8192), None);
        check(Packing::Always, &smooth(8192), Some(8));
        check(Packing::Always, &[b"the same again ".repeat(999), vec![1]].concat(), Some(1));
        check(Packing::Always, &noise(65536), None);
        check(Packing::Always, &[7], None);
        // The first disk is faster than any compressor, the second slower.
        check(Packing::Faster(1e18), &smooth(8192), None);
        check(Packing::Faster(1.0), &smooth(8192), Some(8));
    }

    #[test]
    fn it_pays_if_it_saves_the_disk_more_than_it_takes() {
        let check = |plain, packed, took_us, rate, expected| {
            let took = Duration::from_micros(took_us);
            assert_eq!(pays(Packing::Faster(rate), plain, packed, took), expected);
        };
        check(65536, 32768, 100, 300e6, true);
        check(65536, 32768, 100, 330e6, false);
        check(65536, 60000, 100, 50e6, true);
        check(65536, 60000, 100, 60e6, false);
    }

    #[test]
    fn in_vain_it_is_tried_ever_more_rarely() {
        let mut packer = Packer::new(Packing::Always);
        let block = noise(4096);
        let mut trials = 0;
        for _ in 0..100_000 {
            trials += u32::from(packer.holds == 0);
            assert!(packer.pack(&block).is_none());
        }
        assert!((20..60).contains(&trials), "{trials}");
        // Later blocks are tried again after a while.
        let block = smooth(8192);
        assert!((0..=HOLDS[1]).any(|_| packer.pack(&block).is_some()));
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_borne(input in proptest::collection::vec(0u8..4, 0..3000)) {
            fuzz(&input);
        }
    }

    #[test]
    fn what_was_not_packed_is_refused() {
        let mut room = [0; 100];
        for (packed, width) in [(&b""[..], 1), (b"nothing of that kind", 1), (&[0x28, 0xb5, 0x2f, 0xfd], 8)] {
            assert!(unpack(packed, width, &mut room).is_err());
        }
        let mut packer = Packer::new(Packing::Always);
        let bytes = [5; 100];
        let (width, packed) = packer.pack(&bytes).unwrap();
        assert!(unpack(packed, 3, &mut room).is_err());
        assert!(unpack(packed, width, &mut room[..99]).is_err());
        assert!(unpack(packed, width, &mut [0; 101]).is_err());
        assert!(unpack(packed, width, &mut room).is_ok() && room == bytes);
    }
}
