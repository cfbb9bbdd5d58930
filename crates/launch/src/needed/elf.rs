//! Reader of the data in an ELF program or library that the dynamic loader uses.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::elf::{self, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};

/// Maximum bytes of a name or path in a file.
const NAME_BYTES: usize = 64 << 10;
/// Maximum number of entries for the loader that are read from one file.
const ENTRIES: usize = 4096;

/// Part of a file that the loader reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linkage {
    /// Word size (true for 64 bits) and processor. Libraries for other processors are skipped.
    pub machine: (bool, u16),
    /// Names of the libraries that the file needs, in order.
    pub needed: Vec<Vec<u8>>,
    /// Name of the file as a library (DT_SONAME), if it has one.
    pub name: Option<Vec<u8>>,
    /// Folders that are searched before LD_LIBRARY_PATH, for all libraries below this file (DT_RPATH).
    pub before: Option<Vec<u8>>,
    /// Folders that are searched after LD_LIBRARY_PATH, for libraries that this file itself needs
    /// (DT_RUNPATH).
    pub after: Option<Vec<u8>>,
    /// Folder of the file, the value of `$ORIGIN`.
    pub origin: PathBuf,
    /// Folders of [`Linkage::before`] in the files through which this one is needed.
    pub inherited: Vec<PathBuf>,
}

impl Linkage {
    /// Reads a file; None if it is not an ELF file or is damaged.
    pub fn read(path: &Path) -> Option<Linkage> {
        let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
        let data = ReadCache::new(file);
        let linkage = match FileKind::parse(&data).ok()? {
            FileKind::Elf64 => parse::<elf::FileHeader64<Endianness>>(&data, true),
            FileKind::Elf32 => parse::<elf::FileHeader32<Endianness>>(&data, false),
            _ => None,
        };
        // The loader does not resolve links for the folder either: it takes the path as written.
        let origin = path.parent().unwrap_or(Path::new("")).to_path_buf();
        linkage.map(|linkage| Linkage { origin, ..linkage })
    }
}

/// Parses the dynamic section of a file with headers of this word size.
fn parse<Header: FileHeader<Endian = Endianness>>(data: &ReadCache<File>, is_wide: bool) -> Option<Linkage> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, data).ok()?)?;
    let entries: Vec<(u32, u64)> = entries
        .iter()
        .take(ENTRIES)
        .filter_map(|entry| Some((entry.tag32(endian)?, entry.d_val(endian).into())))
        .collect();
    let value = |tag| entries.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value);
    let (address, bytes) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let start = segments.iter().find_map(|segment| file_offset(segment, endian, address))?;
    let text = |offset: u64| string(data, start.checked_add(offset)?, bytes.checked_sub(offset)?);
    let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED).filter_map(|(_, offset)| text(*offset));
    Some(Linkage {
        machine: (is_wide, header.e_machine(endian)),
        needed: needed.collect(),
        name: value(DT_SONAME).and_then(text),
        before: value(DT_RPATH).and_then(text),
        after: value(DT_RUNPATH).and_then(text),
        origin: PathBuf::new(),
        inherited: Vec::new(),
    })
}

/// Returns the file offset of an address in memory, if this segment contains it.
fn file_offset<Segment: ProgramHeader<Endian = Endianness>>(
    segment: &Segment,
    endian: Endianness,
    address: u64,
) -> Option<u64> {
    if segment.p_type(endian) != elf::PT_LOAD {
        return None;
    }
    let within = address.checked_sub(segment.p_vaddr(endian).into())?;
    let offset: u64 = segment.p_offset(endian).into();
    (within < segment.p_filesz(endian).into()).then(|| offset.checked_add(within))?
}

/// Returns a string that ends with a zero byte, in a table that continues for `most` bytes.
fn string(data: &ReadCache<File>, offset: u64, most: u64) -> Option<Vec<u8>> {
    let end = offset.checked_add(most.min(NAME_BYTES as u64))?;
    let text = data.read_bytes_at_until(offset..end, 0).ok()?;
    (!text.is_empty()).then(|| text.to_vec())
}
