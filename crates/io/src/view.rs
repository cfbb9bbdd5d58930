//! View of a process on a file (MPI-5 section 14.3): a displacement, and a datatype that is repeated without
//! end.
//!
//! A position in a view is a number of *stream bytes*: bytes of the view before that position, in the
//! representation of the file. The datatype is never flattened. Runs of the file are computed for a bounded
//! window at a time.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Datatype, Form, Segment, Succession, Tiles, Tiling};

use crate::representation::Representation;

/// View of a process on a file.
#[derive(Clone, Debug)]
pub struct View {
    /// Bytes of the file before the view.
    pub displacement: i64,
    /// Unit of offsets and file pointers.
    pub etype: Datatype,
    /// Datatype that is repeated, as the program passed it.
    pub filetype: Datatype,
    /// Data representation of the file.
    pub representation: Representation,
    /// The file type as it is in the file.
    layout: Datatype,
    etype_bytes: u64,
    succession: Succession,
    /// Number of stream bytes, if the file type cannot be repeated.
    once: Option<u64>,
    tiles: OnceLock<Arc<Tiles>>,
}

#[cold]
fn wrong(class: ErrorClass, why: impl Into<String>) -> Error {
    Error::new(class, why.into())
}

/// Checks the order of the runs in a type of a view. The class of the error is `Io`, like that of other
/// libraries, as programs compare classes.
///
/// # Errors
/// Fails with `Io` if the runs do not ascend, or if they overlap in a file that may be written.
fn check_order(datatype: &Datatype, succession: Succession, name: &str, writes: bool) -> Result<Succession> {
    let why = match succession {
        _ if datatype.true_lb() < 0 => "has a negative displacement",
        Succession::Decreasing => "has displacements that decrease; they must not in a file",
        Succession::Overlapping if writes => "overlaps itself; in a file that may be written it must not",
        succession => return Ok(succession),
    };
    Err(wrong(ErrorClass::Io, format!("argument {name} {why}")))
}

/// Returns a layout that can be repeated. If the given layout cannot, the second result is the number of
/// stream bytes.
///
/// Explicit bounds of a part are those of the whole (MPI-5 section 5.1.7). So a type of chunks, as HDF5 makes
/// it of regular pieces, ends before its data do. Programs that access only one item of it are correct.
///
/// # Errors
/// Fails like [`check_order`].
fn repeatable(layout: Datatype, writes: bool) -> Result<(Datatype, Succession, Option<u64>)> {
    let endless = check_order(&layout, layout.succession(), "filetype", writes);
    match endless {
        Ok(succession) => Ok((layout, succession, None)),
        Err(error) => {
            let succession =
                check_order(&layout, layout.succession_of_one(), "filetype", writes).map_err(|_| error)?;
            let (size, extent) = (layout.size() as u64, layout.true_extent());
            let apart = Datatype::create_resized(layout.true_lb(), extent, &layout, Form::Int)?;
            Ok((apart, succession, Some(size)))
        }
    }
}

impl View {
    /// Creates the view of MPI_File_set_view. `writes` is true if the file may be written, so that nothing
    /// may overlap.
    ///
    /// # Errors
    /// Fails with `Arg`, `Type` or `Io` for arguments that the standard excludes; the message contains the
    /// argument.
    pub fn new(
        displacement: i64,
        etype: &Datatype,
        filetype: &Datatype,
        representation: Representation,
        writes: bool,
    ) -> Result<View> {
        if displacement < 0 {
            return Err(wrong(
                ErrorClass::Arg,
                format!("argument disp is {displacement}; it must not be negative"),
            ));
        }
        for (datatype, name) in [(etype, "etype"), (filetype, "filetype")] {
            if !datatype.is_committed() {
                let why = format!("argument {name} is not committed; call MPI_Type_commit first");
                return Err(wrong(ErrorClass::Type, why));
            }
            check_order(datatype, datatype.succession_of_one(), name, writes)?;
        }
        if etype.size() == 0 || filetype.size() % etype.size() != 0 {
            let why = format!(
                "argument filetype has {} bytes; they must be a multiple of the {} of etype, which has some",
                filetype.size(),
                etype.size()
            );
            return Err(wrong(ErrorClass::Arg, why));
        }
        let layout = representation.layout(filetype)?;
        let etype_bytes = representation.layout(etype)?.size() as u64;
        let (layout, succession, once) = repeatable(layout, writes)?;
        let (etype, filetype) = (etype.clone(), filetype.clone());
        let tiles = OnceLock::new();
        Ok(View {
            displacement,
            etype,
            filetype,
            representation,
            layout,
            etype_bytes,
            succession,
            once,
            tiles,
        })
    }

    /// Returns the view of a newly opened file: all of its bytes.
    pub fn of_bytes() -> View {
        const BYTE: u32 = 0x247;
        let byte = Datatype::predefined(BYTE).expect("the number of MPI_BYTE");
        View::new(0, byte, byte, Representation::Native, true).expect("the standard's initial view")
    }

    /// Returns the bytes of an etype in the file.
    pub fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// Returns the layout of the file type in the file's representation.
    pub fn layout(&self) -> &Datatype {
        &self.layout
    }

    /// Returns the description of the view that other members receive.
    pub fn tiles(&self) -> Arc<Tiles> {
        let tiles = || Arc::new(Tiles::new(self.displacement, Tiling::from_datatype(&self.layout)));
        Arc::clone(self.tiles.get_or_init(tiles))
    }

    /// Returns true if stream bytes and bytes of the file have the same order, without repetition.
    pub fn is_disjoint(&self) -> bool {
        self.succession == Succession::Disjoint
    }

    /// Returns the stream byte where the etype with this number begins.
    ///
    /// # Errors
    /// Fails with `Arg` for an etype beyond the greatest file, and for a second item of a file type that ends
    /// before its data.
    pub fn stream_of(&self, etypes: i64) -> Result<u64> {
        let stream = u64::try_from(etypes).ok().and_then(|etypes| etypes.checked_mul(self.etype_bytes));
        if let (Some(once), Some(stream)) = (self.once, stream)
            && stream > once
        {
            let why =
                "the filetype of the view, repeated, overlaps itself: only its first item can be accessed";
            return Err(wrong(ErrorClass::Arg, why));
        }
        stream
            .filter(|stream| self.byte_of(*stream).is_some())
            .ok_or_else(|| wrong(ErrorClass::Arg, format!("the offset of {etypes} etypes is out of range")))
    }

    /// Returns the byte of the file at a stream byte, or `None` beyond 2^63 bytes.
    pub fn byte_of(&self, stream: u64) -> Option<u64> {
        if self.layout.size() == 0 {
            return u64::try_from(self.displacement).ok();
        }
        let size = self.layout.size() as u64;
        let tiles = i128::from(stream / size) * i128::from(self.layout.extent());
        // The following does not overflow if that whole instance of the type is within bounds.
        let end = i128::from(self.displacement)
            + tiles
            + i128::from(self.layout.ub().max(self.layout.true_lb() + self.layout.true_extent()));
        if end > i128::from(i64::MAX) {
            return None;
        }
        let mut run: Vec<Segment> = Vec::with_capacity(1);
        self.runs(stream..stream + 1, &mut run, 1);
        run.first().and_then(|run| u64::try_from(run.offset).ok())
    }

    /// Returns the number of stream bytes in the first `bytes` bytes of the file.
    pub fn stream_below(&self, bytes: u64) -> u64 {
        let limit = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_sub(self.displacement);
        self.layout.bytes_below(limit)
    }

    /// Returns the number of the first etype that has no byte in a file of `bytes` bytes. MPI_SEEK_END counts
    /// from it.
    pub fn etypes_below(&self, bytes: u64) -> i64 {
        self.stream_below(bytes).div_ceil(self.etype_bytes) as i64
    }

    /// Appends the runs of the file (offset, bytes) of a range of the stream, at most `limit`; returns how
    /// many stream bytes they cover.
    pub fn runs(&self, stream: Range<u64>, runs: &mut Vec<Segment>, limit: usize) -> u64 {
        let first = runs.len();
        let count = stream.end.div_ceil((self.layout.size() as u64).max(1));
        let covered = self.layout.segments(count, stream, runs, limit);
        runs[first..].iter_mut().for_each(|run| run.offset += self.displacement);
        covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int() -> Datatype {
        Datatype::predefined(0x209).unwrap().clone()
    }

    fn every_third() -> View {
        let vector = Datatype::create_resized(0, 12, &int(), Form::Int).unwrap();
        vector.commit();
        View::new(100, &int(), &vector, Representation::Native, true).unwrap()
    }

    fn check(view: &View, stream: Range<u64>, limit: usize, expected: &[(i64, u64)]) {
        let mut runs = Vec::new();
        view.runs(stream, &mut runs, limit);
        let runs: Vec<(i64, u64)> = runs.iter().map(|run| (run.offset, run.bytes)).collect();
        assert_eq!(runs, expected);
    }

    #[test]
    fn runs_of_a_window() {
        check(&View::of_bytes(), 5..1 << 40, 9, &[(5, (1 << 40) - 5)]);
        check(&every_third(), 2..9, 9, &[(102, 2), (112, 4), (124, 1)]);
        check(&every_third(), 2..9, 2, &[(102, 2), (112, 4)]);
    }

    #[test]
    fn places_and_their_inverse() {
        let view = every_third();
        assert_eq!((view.byte_of(4), view.byte_of(9)), (Some(112), Some(125)));
        assert_eq!((view.stream_below(100), view.stream_below(113), view.stream_below(200)), (0, 5, 36));
        assert_eq!((view.etypes_below(113), view.etypes_below(0)), (2, 0));
        assert!(view.stream_of(i64::MAX / 8).is_err());
        assert_eq!(view.stream_of(3).unwrap(), 12);
    }

    #[test]
    fn what_ends_before_its_data_is_accessed_once() {
        let short = Datatype::create_resized(0, 4, &int(), Form::Int).unwrap();
        let far = Datatype::create_struct(&[5, 1], &[0, 4000], &[int(), short], Form::Int).unwrap();
        far.commit();
        assert!(far.extent() < 4004);
        let view = View::new(100, &int(), &far, Representation::Native, true).unwrap();
        check(&view, 8..24, 9, &[(108, 12), (4100, 4)]);
        assert_eq!((view.stream_of(6).unwrap(), view.stream_below(4102)), (24, 22));
        assert!(view.stream_of(7).unwrap_err().to_string().contains("first item"));
    }

    #[test]
    fn what_the_standard_excludes() {
        let refused = |disp, etype: &Datatype, filetype: &Datatype, writes| {
            View::new(disp, etype, filetype, Representation::Native, writes).is_err()
        };
        let byte = Datatype::predefined(0x247).unwrap();
        assert!(refused(-1, byte, byte, false));
        assert!(refused(0, &int(), byte, false));
        let twice = Datatype::create_hvector(2, 1, 0, &int(), Form::Int).unwrap();
        assert!(refused(0, &int(), &twice, false));
        twice.commit();
        assert!(refused(0, &int(), &twice, true));
        assert!(!refused(0, &int(), &twice, false));
        let back = Datatype::create_indexed(&[1, 1], &[4, 0], &int(), Form::Int).unwrap();
        back.commit();
        assert!(refused(0, &int(), &back, false));
    }
}
