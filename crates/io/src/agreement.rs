//! Agreement of the members of a file on the result of a joint operation: all return the same class of error.

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::collective::WaitContext;
use tutti_core::communicator::Communicator;
use tutti_core::lanes::LaneGuard;
use tutti_core::process::Process;

/// Encodes a result for the agreement: 0 for success, otherwise the number of the error class.
pub fn verdict<T>(result: &Result<T>) -> u32 {
    result.as_ref().err().map_or(0, |error| error.class as u32)
}

/// Returns the own result if its class is `worst`, the class that all return; otherwise an error of that class.
///
/// # Errors
/// Fails with the class `worst`, unless it is 0.
pub fn judge<T>(result: Result<T>, worst: u32) -> Result<T> {
    let class = ErrorClass::from_code(worst as i32).unwrap_or(ErrorClass::Other);
    match result {
        _ if worst != 0 && verdict(&result) != worst => {
            Err(Error::new(class, format!("at another member of the file: {}", class.meaning())))
        }
        result => result,
    }
}

/// Agrees on the results of all members.
///
/// # Errors
/// Returns the own error, or the class of another member's; fails if a message fails.
pub fn agree<T>(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    result: Result<T>,
) -> Result<T> {
    let worst = WaitContext::new(held, process, comm).maximum(verdict(&result).into())?;
    judge(result, worst as u32)
}

/// Agrees like [`agree`], by messages. It is for communicators that may have no other operation: creating
/// their banks takes some hundred times as long.
///
/// # Errors
/// Fails like [`agree`].
pub fn agree_by_messages<T>(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    result: Result<T>,
) -> Result<T> {
    let worst = WaitContext::new(held, process, comm).maximum_by_messages(verdict(&result).into())?;
    judge(result, worst as u32)
}

/// Agrees like [`agree`] before an operation whose arguments must be equal at all members.
///
/// # Errors
/// Fails with `NotSame` and `names` if arguments differ; otherwise like [`agree`].
pub fn agree_same<T, const N: usize>(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    result: Result<T>,
    arguments: [i64; N],
    names: &str,
) -> Result<T> {
    let mut mine = i64::from(verdict(&result)).to_le_bytes().to_vec();
    mine.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
    let all = WaitContext::new(held, process, comm).allgather_bytes(&mine)?;
    let verdicts =
        all.chunks_exact(mine.len()).map(|card| u32::from_le_bytes([card[0], card[1], card[2], card[3]]));
    let worst = verdicts.max().unwrap_or(0);
    if worst != 0 {
        return judge(result, worst);
    }
    if let Some(rank) = all.chunks_exact(mine.len()).position(|card| card != &all[..mine.len()]) {
        let why = format!("{names}: rank {rank} of the file gives another value than rank 0");
        return Err(Error::new(ErrorClass::NotSame, why));
    }
    result
}

/// Returns a number for a text, equal for equal texts and hardly ever for others (FNV-1a).
pub fn number_of(text: &[u8]) -> i64 {
    let mixed = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mixed.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: Option<ErrorClass>, worst: u32, expected: Option<ErrorClass>) {
        let result: Result<()> = own.map_or(Ok(()), |class| Err(Error::new(class, "own")));
        assert_eq!(judge(result, worst).err().map(|error| error.class), expected);
    }

    #[test]
    fn all_get_the_same_class() {
        check(None, 0, None);
        check(None, 41, Some(ErrorClass::NoSpace));
        check(Some(ErrorClass::NoSpace), 41, Some(ErrorClass::NoSpace));
        check(Some(ErrorClass::Access), 41, Some(ErrorClass::NoSpace));
    }
}
