//! Signatures of calls in messages. Members compare them, so that mismatched calls become errors
//! ([`crate::p2p::agreement`]). Those in banks are in [`crate::communicator::collectives::agreement`].

use tutti_coll::select::Choice;
use tutti_coll::{Collective, Shape};

use crate::communicator::Communicator;
use crate::p2p::agreement;
use crate::wire::Signature;

/// Bits of a signature that hash the number of bytes.
const BYTES_FIELD: Signature = 0x1f;

/// Returns the signature in the messages of an operation. It contains only what is equal at all members.
pub(super) fn message_signature(shape: &Shape, comm: &Communicator) -> Signature {
    use Collective as C;
    if comm.inter().is_some() || shape.collective.is_of_neighbours() {
        return agreement::signature(shape.collective, 0, 0);
    }
    let bytes = match shape.collective {
        C::Gatherv | C::Scatterv | C::Alltoallv => 0,
        _ => shape.count.wrapping_mul(shape.unit_bytes),
    };
    agreement::signature(shape.collective, shape.root, bytes)
}

/// Returns the signature of an operation whose algorithm was tried or learned. It includes the algorithm,
/// so that members with different algorithms do not wait for each other.
pub(super) fn message_signature_by(shape: &Shape, comm: &Communicator, choice: &Choice) -> Signature {
    let by = agreement::signature(shape.collective, 0, hash_of_choice(choice));
    message_signature(shape, comm) ^ by & BYTES_FIELD
}

/// Returns a hash of a choice of algorithm and its parameters.
pub(super) fn hash_of_choice(choice: &Choice) -> u64 {
    let [index, radix, segment, _] = choice.words();
    [radix, segment].iter().fold(index, |hash, word| hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word)
}
