//! Files of blocks: the memory of a rank or the shared objects of a host, with a hash for every 64 KiB.
//!
//! ```text
//! magic, 8 bytes
//! blocks, one behind the other
//! index: head and blocks (postcard)
//! trailer: offset, bytes and hash (XXH3-128) of the index, magic; 40 bytes
//! ```
//! A block of zeros has no bytes in the file. A block that equals the one of an older set refers to that set.
//!
//! A [packed](super::packing) block has a second hash, of its bytes in the file. Several packed byte strings
//! may unpack to the same block, and a flipped byte must be found in each case. The trailer's hash is also in
//! the manifest of the set, so that an intact file of another set is detected too.

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

/// Maximum bytes of a block.
pub const BLOCK: u64 = 64 << 10;
const MAGIC: &[u8; 8] = b"TUTTICK2";
const TRAILER: u64 = 40;
/// Bytes that are gathered before they are written.
const GATHERED: usize = 4 << 20;
/// Bytes of a file that are fetched ahead of the reader.
const AHEAD: u64 = 64 << 20;
/// Maximum bytes of an index that is read.
const MOST_INDEX: u64 = 4 << 30;

/// Storage form of a block's bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Bytes of the block, unchanged.
    Plain,
    /// Bytes of the block, compressed with Zstandard.
    Packed {
        /// Number of packed bytes.
        bytes: u32,
        /// Width of the numbers whose bytes are transposed; 1 if they are not.
        width: u8,
        /// XXH3-64 of the packed bytes, to find damage.
        hash: u64,
    },
}

/// Location of a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockPlace {
    /// No location: all bytes are zero.
    Zero,
    /// Offset in this file, and the storage form.
    Here(u64, Form),
    /// Set number, offset in the file of the same name of that older set, and storage form.
    Older(u64, u64, Form),
}

/// Part of an address space of at most `BLOCK` bytes, as listed in the index of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Address space: 0 in the file of a rank. In the file of a host it is the index of a shared object.
    pub space: u32,
    /// Address or offset of the first byte.
    pub start: u64,
    /// Number of bytes, unpacked.
    pub bytes: u32,
    /// XXH3-128 of the unpacked bytes.
    pub hash: u128,
    /// Location of the bytes.
    pub place: BlockPlace,
}

#[derive(Debug, Serialize, Deserialize)]
struct Index {
    head: Vec<u8>,
    blocks: Vec<Block>,
}

/// Entry of a manifest for one file of its set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Name of the file in the folder of its set.
    pub name: String,
    /// Rank whose memory the file contains; None for the shared objects of a host.
    pub rank: Option<u32>,
    /// Number of the host that wrote the file.
    pub host: u32,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// Bytes of memory that its blocks represent.
    pub content: u64,
    /// XXH3-128 hash of its index.
    pub hash: u128,
    /// Numbers of older sets to which its blocks refer.
    pub older: Vec<u64>,
}

/// Blocks of a file of an older set, to which a new file may refer.
#[derive(Clone, Debug, Default)]
pub struct Known(HashMap<(u32, u64), (u32, u128, BlockPlace)>);

impl Known {
    /// Collects the blocks of a file of set `set`.
    pub fn from_blocks(blocks: &[Block], set: u64) -> Known {
        let resolved = blocks.iter().map(|block| {
            let place = match block.place {
                BlockPlace::Here(offset, form) => BlockPlace::Older(set, offset, form),
                place => place,
            };
            ((block.space, block.start), (block.bytes, block.hash, place))
        });
        Known(resolved.collect())
    }

    fn same(&self, space: u32, start: u64, bytes: u32, hash: u128) -> Option<BlockPlace> {
        let (known_bytes, known_hash, place) = self.0.get(&(space, start))?;
        (*known_bytes == bytes && *known_hash == hash).then_some(*place)
    }
}

/// Writer of a file of blocks.
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
    /// Time spent waiting for the disk.
    waited: Duration,
}

impl<'a> Writer<'a> {
    /// Creates the file. Only its owner may read it, as it contains all data of the program.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be created.
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

    /// Adds the bytes at address `start` of a space, at most `BLOCK`.
    ///
    /// # Errors
    /// Returns the error of a failed write.
    pub fn push(&mut self, space: u32, start: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(bytes.len() as u64 <= BLOCK);
        let hash = xxh3_128(bytes);
        let length = bytes.len() as u32;
        self.content += bytes.len() as u64;
        let place = if is_zero(bytes) {
            BlockPlace::Zero
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
            BlockPlace::Here(at, form)
        };
        self.blocks.push(Block { space, start, bytes: length, hash, place });
        if self.gathered.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    /// Returns the number of bytes written so far, including those that are still gathered.
    pub fn bytes(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    /// Writes the gathered bytes, and has the kernel begin to write them to disk.
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

    /// Writes the index and waits until all bytes are on disk. Returns the record for the manifest, the
    /// blocks, and the total time spent waiting for the disk.
    ///
    /// # Errors
    /// Returns the error of a failed write.
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

impl BlockPlace {
    fn older(self) -> Option<u64> {
        match self {
            BlockPlace::Older(set, ..) => Some(set),
            _ => None,
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    // Compares sixteen bytes at a time, then the remainder.
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|&byte| byte == 0)
}

/// Reader of a file of blocks.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    older: HashMap<u64, File>,
    /// Offset up to which the kernel was asked to fetch the file.
    fetched: AtomicU64,
    /// Head of the index: a description of the rank or host, serialised by the caller.
    pub head: Vec<u8>,
    /// Index of all blocks, in the order in which they were written.
    pub blocks: Vec<Block>,
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn damaged(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {what}", path.display()))
}

impl Reader {
    /// Opens a file of set `set` in directory `directory` and reads its index. Size and hash must match the
    /// record.
    ///
    /// # Errors
    /// Fails if the file is absent or damaged, or if an older set to which it refers is absent.
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

    /// Asks the disk to fetch the beginning of the file, for a caller that will read all blocks later.
    pub fn fetch(&self) {
        self.fetch_ahead(0);
    }

    /// Asks the kernel to fetch the file well beyond offset `at`. Thus the disk works while a block is
    /// checked and copied. Without this, a restart took 1.5 times as long as reading its files.
    fn fetch_ahead(&self, at: u64) {
        let from = self.fetched.load(Ordering::Relaxed).max(at);
        if at + AHEAD / 2 >= from {
            file::fetch_ahead(self.file.as_fd(), from, AHEAD);
            self.fetched.store(from + AHEAD, Ordering::Relaxed);
        }
    }

    /// Reads a block into `room`, which must have the length of the block.
    ///
    /// # Errors
    /// Fails if the bytes differ from those that were written.
    pub fn read(&self, block: &Block, room: &mut [u8]) -> io::Result<()> {
        let (file, at, form) = match block.place {
            BlockPlace::Zero => {
                room.fill(0);
                return Ok(());
            }
            BlockPlace::Here(at, form) => {
                self.fetch_ahead(at);
                (&self.file, at, form)
            }
            BlockPlace::Older(set, at, form) => {
                (self.older.get(&set).expect("opened with the index"), at, form)
            }
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
                BlockPlace::Older(set, ..) => {
                    format!("the block at {:#x}, which is in set {set}", block.start)
                }
                _ => format!("the block at {:#x}", block.start),
            };
            return Err(damaged(&self.path, &format!("{whose} is not what was written")));
        }
        Ok(())
    }

    /// Reads all blocks and compares their hashes.
    ///
    /// # Errors
    /// Returns the first damaged block as an error.
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
        let (second, blocks) = write(&folder, 2, &Known::from_blocks(&blocks, 1), &content(2));
        let (third, _) = write(&folder, 3, &Known::from_blocks(&blocks, 2), &content(2));
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
        let (second, blocks) = write_with(&folder, 2, &Known::from_blocks(&blocks, 1), &content(2.0), always);
        // A writer without packing may still refer to packed blocks.
        let (third, _) = write(&folder, 3, &Known::from_blocks(&blocks, 2), &content(2.0));
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
        let is_packed = |block: &Block| matches!(block.place, BlockPlace::Here(_, Form::Packed { .. }));
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
