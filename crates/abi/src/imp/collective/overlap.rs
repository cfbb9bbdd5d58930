//! Check whether buffers of a collective overlap. The result would then depend on the order of accesses
//! (MPI-5 section 6.1).
//!
//! Only arrays without gaps are checked, since arrays with gaps may interleave. A process may send and
//! receive the same data at the same address, as programs do that do not use MPI_IN_PLACE: this changes
//! nothing and is allowed. Checks of lists take time in proportion to their length. Programs are in use whose
//! received blocks overlap without harm, for example MPICH's allgatherv4. So lists are checked with
//! `TUTTI_DEBUG=check_arguments=1` only.

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::collective::{Collective, Side};
use tutti_core::engine::Array;

/// Memory of an array without gaps: address of the first byte, and address behind the last one.
type Run = (usize, usize);

/// Refuses buffers that overlap; with `thorough`, also blocks that are received over each other.
///
/// # Errors
/// Fails with `Buffer`; the message contains the blocks.
pub fn check(collective: Collective, send: &Side<'_>, recv: &Side<'_>, thorough: bool) -> Result<()> {
    match (send, recv) {
        (_, Side::Entries(blocks)) if thorough && blocks.len() > 1 => among(blocks.iter().map(run_of)),
        (Side::Block(from), Side::Block(into)) if whole_is_sent(collective) => {
            between(run_of(from), run_of(into))
        }
        _ => Ok(()),
    }
}

/// Returns true if no byte of the send buffer may lie in the receive buffer, as it is no part of the result.
fn whole_is_sent(collective: Collective) -> bool {
    use Collective as C;
    matches!(
        collective,
        C::Reduce
            | C::Allreduce
            | C::ReduceScatterBlock
            | C::ReduceScatter
            | C::Scan
            | C::Exscan
            | C::Alltoall
    )
}

fn run_of(array: &Array<'_>) -> Option<Run> {
    let datatype = array.datatype;
    let (size, extent) = (datatype.size(), datatype.extent());
    if array.count == 0 || size <= 0 || size != extent || datatype.true_extent() != size {
        return None;
    }
    let first = (array.base as usize).wrapping_add_signed(datatype.true_lb() as isize);
    let bytes = (array.count as usize).checked_mul(size as usize)?;
    Some((first, first.checked_add(bytes)?))
}

fn between(sent: Option<Run>, received: Option<Run>) -> Result<()> {
    match (sent, received) {
        (Some((from, end)), Some((into, limit))) if from < limit && into < end => {
            let reason = "arguments sendbuf and recvbuf overlap; give memory apart, or MPI_IN_PLACE";
            Err(Error::new(ErrorClass::Buffer, reason))
        }
        _ => Ok(()),
    }
}

fn among(blocks: impl Iterator<Item = Option<Run>>) -> Result<()> {
    let numbered = blocks.enumerate().filter_map(|(number, run)| run.map(|run| (run, number)));
    let mut runs: Vec<(Run, usize)> = numbered.collect();
    if !runs.is_sorted() {
        runs.sort_unstable();
    }
    match runs.windows(2).find(|pair| pair[1].0.0 < pair[0].0.1) {
        None => Ok(()),
        Some(pair) => {
            let (one, two) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
            let reason = format!(
                "blocks {one} and {two} of argument recvbuf overlap; change their counts or displacements"
            );
            Err(Error::new(ErrorClass::Buffer, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(blocks: &[Option<Run>], expected: Option<&str>) {
        let got = among(blocks.iter().copied()).err().map(|error| error.message.to_string());
        assert_eq!(got.is_some(), expected.is_some(), "{blocks:?}: {got:?}");
        assert!(got.unwrap_or_default().contains(expected.unwrap_or_default()));
    }

    #[test]
    fn blocks_that_overlap_are_named() {
        check(&[], None);
        check(&[Some((0, 8)), Some((8, 16)), None, Some((32, 40))], None);
        check(&[Some((8, 16)), Some((0, 8))], None);
        check(&[Some((16, 24)), None, Some((0, 17))], Some("blocks 0 and 2"));
        check(&[Some((0, 8)), Some((0, 8))], Some("blocks 0 and 1"));
    }

    #[test]
    fn what_is_sent_lies_apart() {
        assert!(between(Some((0, 8)), Some((8, 16))).is_ok() && between(None, Some((0, 8))).is_ok());
        assert!(
            between(Some((4, 12)), Some((8, 16))).is_err() && between(Some((8, 16)), Some((0, 9))).is_err()
        );
    }
}
