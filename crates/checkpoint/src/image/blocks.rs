//! Files of blocks: what a rank's memory or a host's objects hold, with a hash for every 64 KiB.
//!
//! ```text
//! magic, 8 bytes
//! blocks, one behind the other
//! index: head and blocks (postcard)
//! trailer: offset, bytes and hash (XXH3-128) of the index, magic; 40 bytes
//! ```
//! A block that is all zero has no bytes; one that is the same as in an older set refers to that set. One
//! that is [packed](super::packing) has a second hash, of the bytes that lie in the file: several rows of
//! packed bytes may unpack to the same, and a byte that was flipped is to be found all the same. The
//! trailer's hash is in the manifest of the set too, so a file that is whole but another's is found as well
//! as any flipped byte.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use tutti_sys::file;

use super::packing::{self, Packer, Packing};

/// Most bytes of a block.
pub const BLOCK: u64 = 64 << 10;
const MAGIC: &[u8; 8] = b"TUTTICK2";
const TRAILER: u64 = 40;
/// Bytes that are gathered before they are written.
const GATHERED: usize = 4 << 20;
/// Bytes of a file that are fetched before they are read.
const AHEAD: u64 = 64 << 20;
/// Longest index that is believed.
const MOST_INDEX: u64 = 4 << 30;

/// How the bytes of a block lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// As they are.
    Plain,
    /// Packed.
    Packed {
        /// Bytes.
        bytes: u32,
        /// Width of the numbers whose bytes are transposed.
        width: u8,
        /// XXH3-64 of the packed bytes.
        hash: u64,
    },
}

/// Where the bytes of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// They are all zero.
    Zero,
    /// In this file, at an offset.
    Here(u64, Form),
    /// In the file of the same name of an older set, at an offset.
    Older(u64, u64, Form),
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Which space of addresses.
    pub space: u32,
    /// First address in it.
    pub start: u64,
    /// Bytes.
    pub bytes: u32,
    /// XXH3-128 of the bytes.
    pub hash: u128,
    /// Where they are.
    pub place: Place,
}

#[derive(Debug, Serialize, Deserialize)]
struct Index {
    head: Vec<u8>,
    blocks: Vec<Block>,
}

/// What of a file its set's manifest says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its name in the set.
    pub name: String,
    /// The rank whose memory it has; `None` of what a host shares.
    pub rank: Option<u32>,
    /// The host.
    pub host: u32,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes that its blocks stand for.
    pub content: u64,
    /// Hash of its index.
    pub hash: u128,
    /// Older sets that it refers to.
    pub older: Vec<u64>,
}

/// The blocks of a file of an older set, to refer to.
#[derive(Clone, Debug, Default)]
pub struct Known(HashMap<(u32, u64), (u32, u128, Place)>);

impl Known {
    /// Of a file of set `set`.
    pub fn of(blocks: &[Block], set: u64) -> Known {
        let resolved = blocks.iter().map(|block| {
            let place = match block.place {
                Place::Here(offset, form) => Place::Older(set, offset, form),
                place => place,
            };
            ((block.space, block.start), (block.bytes, block.hash, place))
        });
        Known(resolved.collect())
    }

    fn same(&self, space: u32, start: u64, bytes: u32, hash: u128) -> Option<Place> {
        let (known_bytes, known_hash, place) = self.0.get(&(space, start))?;
        (*known_bytes == bytes && *known_hash == hash).then_some(*place)
    }
}

/// Writes a file of blocks.
#[derive(Debug)]
pub struct Writer<'a> {
    file: File,
    path: PathBuf,
    gathered: Vec<u8>,
    written: u64,
    content: u64,
    known: &'a Known,
    packer: Packer,
    blocks: Vec<Block>,
    /// How long the disk has taken.
    waited: Duration,
}

impl<'a> Writer<'a> {
    /// Creates the file, readable by its owner alone: it holds all that the program knows.
    ///
    /// # Errors
    /// What the system reports.
    pub fn create(path: &Path, known: &'a Known, packing: Packing) -> io::Result<Writer<'a>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let mut gathered = Vec::with_capacity(GATHERED + BLOCK as usize);
        gathered.extend_from_slice(MAGIC);
        let (blocks, path, packer) = (Vec::new(), path.to_path_buf(), Packer::new(packing));
        Ok(Writer {
            file,
            path,
            gathered,
            written: 0,
            content: 0,
            known,
            packer,
            blocks,
            waited: Duration::ZERO,
        })
    }

    /// Adds the bytes at `start` of a space, at most 64 KiB.
    ///
    /// # Errors
    /// What writing reports.
    pub fn push(&mut self, space: u32, start: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(bytes.len() as u64 <= BLOCK);
        let hash = xxh3_128(bytes);
        let length = bytes.len() as u32;
        self.content += bytes.len() as u64;
        let place = if is_zero(bytes) {
            Place::Zero
        } else if let Some(place) = self.known.same(space, start, length, hash) {
            place
        } else {
            let at = self.written + self.gathered.len() as u64;
            let (form, stored) = match self.packer.pack(bytes) {
                Some((width, packed)) => {
                    let (bytes, hash) = (packed.len() as u32, xxh3_64(packed));
                    (Form::Packed { bytes, width, hash }, packed)
                }
                None => (Form::Plain, bytes),
            };
            self.gathered.extend_from_slice(stored);
            Place::Here(at, form)
        };
        self.blocks.push(Block { space, start, bytes: length, hash, place });
        if self.gathered.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    /// Bytes in the file so far.
    pub fn bytes(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    fn flush(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        self.file.write_all(&self.gathered)?;
        // The disk works while the next blocks are read and hashed.
        file::begin_sync(self.file.as_fd(), self.written, self.gathered.len() as u64);
        self.waited += begun.elapsed();
        self.written += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }

    /// Writes the index and waits until the disk has all of it; returns what is to be known of the file, and
    /// how long the disk was waited for in all.
    ///
    /// # Errors
    /// What writing reports.
    pub fn finish(
        mut self,
        head: Vec<u8>,
        host: u32,
        rank: Option<u32>,
    ) -> io::Result<(FileRecord, Vec<Block>, Duration)> {
        let mut older: Vec<u64> = self.blocks.iter().filter_map(|block| block.place.older()).collect();
        older.sort_unstable();
        older.dedup();
        let index = Index { head, blocks: std::mem::take(&mut self.blocks) };
        let bytes = postcard::to_stdvec(&index).map_err(io::Error::other)?;
        let hash = xxh3_128(&bytes);
        let at = self.bytes();
        self.gathered.extend_from_slice(&bytes);
        self.gathered.extend_from_slice(&at.to_le_bytes());
        self.gathered.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.gathered.extend_from_slice(&hash.to_le_bytes());
        self.gathered.extend_from_slice(MAGIC);
        self.flush()?;
        let begun = Instant::now();
        self.file.sync_all()?;
        let waited = self.waited + begun.elapsed();
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let record = FileRecord { name, rank, host, bytes: self.written, content: self.content, hash, older };
        Ok((record, index.blocks, waited))
    }
}

impl Place {
    fn older(self) -> Option<u64> {
        match self {
            Place::Older(set, ..) => Some(set),
            _ => None,
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    // Sixteen bytes at a time, and what is left.
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|&byte| byte == 0)
}

/// A file of blocks that is read.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    older: HashMap<u64, File>,
    /// Up to where the file is being fetched.
    fetched: AtomicU64,
    /// What the blocks are of.
    pub head: Vec<u8>,
    /// The blocks.
    pub blocks: Vec<Block>,
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn damaged(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {what}", path.display()))
}

impl Reader {
    /// Opens a file of set `set` in directory `directory` and reads its index, which must be what its record
    /// says.
    ///
    /// # Errors
    /// If it is not there, or not whole.
    pub fn open(directory: &Path, set: u64, record: &FileRecord) -> io::Result<Reader> {
        let path = directory.join(set.to_string()).join(&record.name);
        let named = |error| named(&path, error);
        let file = File::open(&path).map_err(named)?;
        let bytes = file.metadata().map_err(named)?.len();
        if bytes != record.bytes || bytes < TRAILER + MAGIC.len() as u64 {
            return Err(damaged(&path, &format!("it has {bytes} bytes instead of {}", record.bytes)));
        }
        let mut first = [0; 8];
        file.read_exact_at(&mut first, 0).map_err(named)?;
        let mut trailer = [0; TRAILER as usize];
        file.read_exact_at(&mut trailer, bytes - TRAILER).map_err(named)?;
        let word = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().expect("eight bytes"));
        let (at, length) = (word(0), word(8));
        let hash = u128::from_le_bytes(trailer[16..32].try_into().expect("sixteen bytes"));
        let is_placed = length <= MOST_INDEX && at.checked_add(length) == Some(bytes - TRAILER);
        if trailer[32..] != *MAGIC || first != *MAGIC || !is_placed || hash != record.hash {
            return Err(damaged(&path, "its end is not what was written"));
        }
        let mut index = vec![0; length as usize];
        file.read_exact_at(&mut index, at).map_err(named)?;
        if xxh3_128(&index) != hash {
            return Err(damaged(&path, "its index is not what was written"));
        }
        let index: Index =
            postcard::from_bytes(&index).map_err(|_| damaged(&path, "its index cannot be read"))?;
        let mut older = HashMap::new();
        for set in index.blocks.iter().filter_map(|block| block.place.older()) {
            if let std::collections::hash_map::Entry::Vacant(entry) = older.entry(set) {
                let path = directory.join(set.to_string()).join(&record.name);
                entry.insert(File::open(&path).map_err(|error| self::named(&path, error))?);
            }
        }
        let fetched = AtomicU64::new(0);
        Ok(Reader { file, path, older, fetched, head: index.head, blocks: index.blocks })
    }

    /// For who will read all blocks, but not yet: the disk begins.
    pub fn fetch(&self) {
        self.fetch_ahead(0);
    }

    /// Has the file fetched a good way beyond `at`: the disk goes on while a block is checked and put into
    /// memory that has to come too (a restart took 1.5 times as long as its files to be read).
    fn fetch_ahead(&self, at: u64) {
        let from = self.fetched.load(Ordering::Relaxed).max(at);
        if at + AHEAD / 2 >= from {
            file::fetch_ahead(self.file.as_fd(), from, AHEAD);
            self.fetched.store(from + AHEAD, Ordering::Relaxed);
        }
    }

    /// Reads a block into `room`, as long as it is.
    ///
    /// # Errors
    /// If the bytes are not those that were written.
    pub fn read(&self, block: &Block, room: &mut [u8]) -> io::Result<()> {
        let (file, at, form) = match block.place {
            Place::Zero => {
                room.fill(0);
                return Ok(());
            }
            Place::Here(at, form) => {
                self.fetch_ahead(at);
                (&self.file, at, form)
            }
            Place::Older(set, at, form) => (self.older.get(&set).expect("opened with the index"), at, form),
        };
        let named = |error| named(&self.path, error);
        let is_right = match form {
            Form::Plain => {
                file.read_exact_at(room, at).map_err(named)?;
                true
            }
            Form::Packed { bytes, .. } if u64::from(bytes) > BLOCK => false,
            Form::Packed { bytes, width, hash } => {
                let mut packed = [0; BLOCK as usize];
                let packed = &mut packed[..bytes as usize];
                file.read_exact_at(packed, at).map_err(named)?;
                xxh3_64(packed) == hash && packing::unpack(packed, width, room).is_ok()
            }
        };
        if !is_right || xxh3_128(room) != block.hash {
            let whose = match block.place {
                Place::Older(set, ..) => format!("the block at {:#x}, which is in set {set}", block.start),
                _ => format!("the block at {:#x}", block.start),
            };
            return Err(damaged(&self.path, &format!("{whose} is not what was written")));
        }
        Ok(())
    }

    /// Reads all blocks, for their hashes.
    ///
    /// # Errors
    /// The first that is damaged.
    pub fn verify(&self) -> io::Result<()> {
        let mut room = vec![0; BLOCK as usize];
        self.blocks.iter().try_for_each(|block| {
            let bytes = block.bytes as usize;
            if bytes > room.len() {
                return Err(damaged(&self.path, "a block is too long"));
            }
            self.read(block, &mut room[..bytes])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tutti-blocks-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            for set in 1..4 {
                std::fs::create_dir_all(path.join(set.to_string())).unwrap();
            }
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn write(
        folder: &Folder,
        set: u64,
        known: &Known,
        blocks: &[(u64, Vec<u8>)],
    ) -> (FileRecord, Vec<Block>) {
        write_with(folder, set, known, blocks, Packing::Never)
    }

    fn write_with(
        folder: &Folder,
        set: u64,
        known: &Known,
        blocks: &[(u64, Vec<u8>)],
        packing: Packing,
    ) -> (FileRecord, Vec<Block>) {
        let path = folder.0.join(set.to_string()).join("rank-0");
        let mut writer = Writer::create(&path, known, packing).unwrap();
        for (start, bytes) in blocks {
            writer.push(0, *start, bytes).unwrap();
        }
        let (record, blocks, _) = writer.finish(b"head".to_vec(), 0, Some(0)).unwrap();
        (record, blocks)
    }

    fn read(folder: &Folder, set: u64, record: &FileRecord) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let reader = Reader::open(&folder.0, set, record)?;
        assert_eq!(reader.head, b"head");
        reader
            .blocks
            .iter()
            .map(|block| {
                let mut room = vec![0; block.bytes as usize];
                reader.read(block, &mut room).map(|()| (block.start, room))
            })
            .collect()
    }

    #[test]
    fn blocks_come_back_and_unchanged_ones_are_not_written_again() {
        let folder = Folder::new("older");
        let content = |changed: u8| {
            vec![
                (0, vec![changed; 65536]),
                (65536, vec![7; 65536]),
                (1 << 40, vec![0; 4096]),
                (1 << 41, vec![9; 100]),
            ]
        };
        let (first, blocks) = write(&folder, 1, &Known::default(), &content(1));
        let (second, blocks) = write(&folder, 2, &Known::of(&blocks, 1), &content(2));
        let (third, _) = write(&folder, 3, &Known::of(&blocks, 2), &content(2));
        assert!(first.bytes > 2 * 65536 && second.bytes < 66_000 && third.bytes < 400, "{first:?} {third:?}");
        assert_eq!((&first.older[..], &second.older[..], &third.older[..]), (&[][..], &[1][..], &[1, 2][..]));
        for (set, record, changed) in [(1, &first, 1), (2, &second, 2), (3, &third, 2)] {
            assert_eq!(read(&folder, set, record).unwrap(), content(changed));
        }
    }

    #[test]
    fn packed_blocks_come_back_and_are_referred_to() {
        let folder = Folder::new("packed");
        let number = |at: u32, changed: f64| (f64::from(at) * 1e-4 + changed).sin().to_le_bytes();
        let content = |changed: f64| {
            vec![
                (0, (0..8192).flat_map(|at| number(at, changed)).collect::<Vec<u8>>()),
                (65536, (0..8192).flat_map(|at| number(at, 7.0)).collect()),
                (1 << 40, vec![9; 4097]),
            ]
        };
        let always = Packing::Always;
        let (first, blocks) = write_with(&folder, 1, &Known::default(), &content(1.0), always);
        let (second, blocks) = write_with(&folder, 2, &Known::of(&blocks, 1), &content(2.0), always);
        // Whoever packs nothing refers to packed blocks all the same.
        let (third, _) = write(&folder, 3, &Known::of(&blocks, 2), &content(2.0));
        assert!(first.bytes < 110_000 && second.bytes < 55_000 && third.bytes < 400, "{first:?} {third:?}");
        for (set, record, changed) in [(1, &first, 1.0), (2, &second, 2.0), (3, &third, 2.0)] {
            assert_eq!(read(&folder, set, record).unwrap(), content(changed));
        }
    }

    #[test]
    fn any_flipped_byte_is_found() {
        let text = b"the same again and again and ".repeat(9);
        let blocks = [(0, vec![3; 200]), (4096, (0..100).collect()), (8192, text)];
        for packing in [Packing::Never, Packing::Always] {
            check_flipped(&blocks, packing);
        }
    }

    fn check_flipped(blocks: &[(u64, Vec<u8>)], packing: Packing) {
        let folder = Folder::new(&format!("flipped-{}", packing == Packing::Never));
        let (record, blocks) = write_with(&folder, 1, &Known::default(), blocks, packing);
        let is_packed = |block: &Block| matches!(block.place, Place::Here(_, Form::Packed { .. }));
        assert_eq!(blocks.iter().any(is_packed), packing != Packing::Never);
        let path = folder.0.join("1/rank-0");
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).unwrap();
            let error = read(&folder, 1, &record).expect_err(&format!("byte {at} of {}", whole.len()));
            assert!(error.to_string().contains("rank-0"), "{error}");
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(read(&folder, 1, &record).is_err());
        std::fs::write(&path, &whole).unwrap();
        assert!(read(&folder, 1, &record).is_ok());
    }
}
