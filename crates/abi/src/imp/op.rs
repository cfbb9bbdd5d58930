//! Reduction operations (MPI-5 section 6.9).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::type_object::TypeObject;
use tutti_data::{Datatype as Data, Op as Operation};

use crate::dialect;
use crate::entry::Call;
use crate::generated::callbacks::{MPI_User_function, MPI_User_function_c};
use crate::handles;
use crate::handles::kind::{Datatype, Op};
use crate::imp::collective::check_operator;
use crate::imp::memory;
use crate::scope::{Address, HandleOut, In, Out};
use crate::types::MPI_Datatype;

/// Returns the predefined operation with this number.
pub fn predefined(number: usize) -> Option<Operation> {
    Operation::predefined(u32::try_from(number).ok()?).cloned()
}

/// Passes the handle of `data` that the program's call contained to a user's function (MPI-5 section 6.9.5).
fn with_handle(data: &Data, named: usize, body: impl FnOnce(MPI_Datatype)) {
    let named = MPI_Datatype::from_bits(named);
    // SAFETY: used at once.
    let object = unsafe { handles::resolve(named, "datatype") };
    if object.is_ok_and(|object| object.data() == data) {
        return body(named);
    }
    lend_again(data, named, body);
}

/// Passes a handle that the program has freed since the operation started. The operation completes normally
/// all the same (MPI-5 section 5.1.9). If the handle cannot become valid again, another one is passed.
#[cold]
fn lend_again(data: &Data, named: MPI_Datatype, body: impl FnOnce(MPI_Datatype)) {
    let object = Arc::new(TypeObject::new(data.clone()));
    let raw = match handles::revive(named, object) {
        Ok(()) => named,
        Err(object) => handles::insert::<Datatype>(object).expect("a program has less than 2^30 datatypes"),
    };
    body(raw);
    // SAFETY: the reference is dropped at once.
    let removed = unsafe { handles::remove::<Datatype>(raw, "datatype") }.map(|_: &Arc<TypeObject>| ());
    removed.expect("the handle was made above and the function only saw a copy");
}

fn no_function() -> Error {
    Error::new(ErrorClass::Arg, "argument user_fn is a null pointer")
}

/// Creates a reduction operation from a function of the program (MPI_Op_create).
pub fn create(
    _call: &mut Call,
    user_fn: Option<MPI_User_function>,
    commute: c_int,
    op: HandleOut<Op>,
) -> Result<()> {
    let function = user_fn.ok_or_else(no_function)? as usize;
    let caller = dialect::spoken().MPI_User_function;
    let apply = move |input: *const u8, inout: *mut u8, count: i64, data: &Data, named: usize| {
        with_handle(data, named, |mut raw| {
            let mut done = 0;
            while done < count {
                let mut length = c_int::try_from(count - done).unwrap_or(c_int::MAX);
                let offset = (done * data.extent()) as isize;
                done += i64::from(length);
                let (input, inout) = (input.wrapping_offset(offset), inout.wrapping_offset(offset));
                // SAFETY: the user's function; both buffers hold `length` items from here on.
                unsafe {
                    let input = input.cast::<c_void>().cast_mut();
                    caller(function, input, inout.cast(), &raw mut length, &raw mut raw);
                };
            }
        });
    };
    op.create(Operation::user(Arc::new(apply), commute != 0)).map(drop)
}

/// Creates a reduction operation from a function with large counts (MPI_Op_create_c).
pub fn create_c(
    _call: &mut Call,
    user_fn: Option<MPI_User_function_c>,
    commute: c_int,
    op: HandleOut<Op>,
) -> Result<()> {
    let function = user_fn.ok_or_else(no_function)? as usize;
    let caller = dialect::spoken().MPI_User_function_c;
    let apply = move |input: *const u8, inout: *mut u8, mut count: i64, data: &Data, named: usize| {
        with_handle(data, named, |mut raw| {
            // SAFETY: the user's function; both buffers hold `count` items.
            unsafe {
                let input = input.cast::<c_void>().cast_mut();
                caller(function, input, inout.cast(), &raw mut count, &raw mut raw);
            };
        });
    };
    op.create(Operation::user(Arc::new(apply), commute != 0)).map(drop)
}

/// Frees a reduction operation of the program (MPI_Op_free).
pub fn free(_call: &mut Call, op: HandleOut<Op>) -> Result<()> {
    op.remove().map(drop)
}

/// Returns whether a reduction operation commutes (MPI_Op_commutative).
pub fn commutative(_call: &mut Call, op: In<Op>, commute: Out<c_int>) -> Result<()> {
    commute.set_flag(op.get()?.is_commutative())
}

/// Combines two buffers of the caller (MPI_Reduce_local).
pub fn reduce_local(
    _call: &mut Call,
    inbuf: Address,
    inoutbuf: Address,
    count: i64,
    datatype: In<Datatype>,
    op: In<Op>,
) -> Result<()> {
    let items = memory::count(count, "count")?;
    let (named, data, op) = (datatype.raw().bits(), memory::datatype(datatype)?, op.get()?);
    check_operator(op, data)?;
    memory::check_address(inbuf, "inbuf", items, data)?;
    memory::check_address(inoutbuf, "inoutbuf", items, data)?;
    if items == 0 {
        return Ok(());
    }
    if inbuf.pointer() == inoutbuf.pointer() {
        let reason = "arguments inbuf and inoutbuf are the same memory; give memory apart";
        return Err(Error::new(ErrorClass::Buffer, reason));
    }
    let reducer = op.bind(data)?.named(named);
    // SAFETY: the caller of the MPI function vouches for both buffers (MPI-5 section 6.9.7).
    unsafe { reducer.apply(inbuf.pointer(), inoutbuf.pointer(), items) };
    Ok(())
}
