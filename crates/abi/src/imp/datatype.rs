//! Datatypes (MPI-5 chapter 5): constructors, bounds, decoding, names. Packing is in [`super::pack`].

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::lanes::{FirstLaneCell, LaneGuard};
use tutti_core::names::ObjectName;
use tutti_core::type_object::TypeObject;
use tutti_data::{Combiner, Contents, Darray, Datatype as Data, Distribution, Form, Order};

use crate::entry::Call;
use crate::generated::constants::MPI_MAX_OBJECT_NAME;
use crate::handles;
use crate::handles::kind::Datatype;
use crate::scope::{Address, Array, ArrayOut, CountArray, CountOut, HandleOut, In, Out, Text, TextOut};
use crate::types::{MPI_Aint, MPI_Datatype};

/// Handles of predefined datatypes without a name (Fortran kinds, pairs) by [`Data::id`]. These datatypes are
/// never freed.
static UNNAMED: FirstLaneCell<BTreeMap<usize, MPI_Datatype>> = FirstLaneCell::new(BTreeMap::new());

/// Returns the predefined datatype with this number.
pub fn predefined(number: usize) -> Option<Arc<TypeObject>> {
    TypeObject::predefined(u32::try_from(number).ok()?).cloned()
}

/// Returns a handle for `data`: always the same one for a predefined datatype, a new one for any other.
pub fn handle_of(held: &LaneGuard, data: &Data) -> Result<MPI_Datatype> {
    if let Some(code) = data.code() {
        return Ok(MPI_Datatype::predefined(code as usize));
    }
    if let Some(raw) = UNNAMED.borrow(held).get(&data.id()) {
        return Ok(*raw);
    }
    let raw = handles::insert::<Datatype>(Arc::new(TypeObject::new(data.clone())))?;
    if data.is_predefined() {
        UNNAMED.borrow_mut(held).insert(data.id(), raw);
    }
    Ok(raw)
}

/// Returns the binding that was called: with `int` or with `MPI_Count`.
fn form(call: &Call) -> Form {
    if call.function.name.ends_with("_c") { Form::Count } else { Form::Int }
}

/// Returns a new datatype.
fn create(newtype: HandleOut<Datatype>, data: Data) -> Result<()> {
    newtype.create(Arc::new(TypeObject::new(data))).map(drop)
}

/// Creates a datatype of consecutive elements (MPI_Type_contiguous).
pub fn contiguous(
    call: &mut Call,
    count: i64,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    create(newtype, Data::create_contiguous(count, oldtype.get()?.data(), form(call))?)
}

/// Creates a datatype of equal blocks; the stride counts elements (MPI_Type_vector).
pub fn vector(
    call: &mut Call,
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    create(newtype, Data::create_vector(count, blocklength, stride, oldtype.get()?.data(), form(call))?)
}

/// Creates a datatype of equal blocks; the stride counts bytes (MPI_Type_create_hvector).
pub fn create_hvector(
    call: &mut Call,
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    create(newtype, Data::create_hvector(count, blocklength, stride, oldtype.get()?.data(), form(call))?)
}

/// Creates a datatype of blocks; displacements count elements (MPI_Type_indexed).
pub fn indexed(
    call: &mut Call,
    count: i64,
    blocklengths: CountArray,
    displacements: CountArray,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    let (lengths, places) = (blocklengths.to_vec(count)?, displacements.to_vec(count)?);
    create(newtype, Data::create_indexed(&lengths, &places, oldtype.get()?.data(), form(call))?)
}

/// Creates a datatype of blocks; displacements count bytes (MPI_Type_create_hindexed).
pub fn create_hindexed(
    call: &mut Call,
    count: i64,
    blocklengths: CountArray,
    displacements: CountArray,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    let (lengths, places) = (blocklengths.to_vec(count)?, displacements.to_vec(count)?);
    create(newtype, Data::create_hindexed(&lengths, &places, oldtype.get()?.data(), form(call))?)
}

/// Creates a datatype of equal blocks; displacements count elements (MPI_Type_create_indexed_block).
pub fn create_indexed_block(
    call: &mut Call,
    count: i64,
    blocklength: i64,
    displacements: CountArray,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    let places = displacements.to_vec(count)?;
    create(newtype, Data::create_indexed_block(blocklength, &places, oldtype.get()?.data(), form(call))?)
}

/// Creates a datatype of equal blocks; displacements count bytes (MPI_Type_create_hindexed_block).
pub fn create_hindexed_block(
    call: &mut Call,
    count: i64,
    blocklength: i64,
    displacements: CountArray,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    let places = displacements.to_vec(count)?;
    create(newtype, Data::create_hindexed_block(blocklength, &places, oldtype.get()?.data(), form(call))?)
}

/// Creates a datatype of blocks of several datatypes (MPI_Type_create_struct).
pub fn create_struct(
    call: &mut Call,
    count: i64,
    blocklengths: CountArray,
    displacements: CountArray,
    types: Array<MPI_Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    let (lengths, places) = (blocklengths.to_vec(count)?, displacements.to_vec(count)?);
    let inner: Vec<Data> =
        types.handles(count)?.map(|inner| Ok(inner.get()?.data().clone())).collect::<Result<_>>()?;
    create(newtype, Data::create_struct(&lengths, &places, &inner, form(call))?)
}

/// Creates the datatype of a part of a multidimensional array (MPI_Type_create_subarray).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn create_subarray(
    call: &mut Call,
    ndims: c_int,
    sizes: CountArray,
    subsizes: CountArray,
    starts: CountArray,
    order: c_int,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    let ndims = i64::from(ndims);
    let (sizes, subsizes, starts) = (sizes.to_vec(ndims)?, subsizes.to_vec(ndims)?, starts.to_vec(ndims)?);
    let (order, inner) = (Order::from_code(order)?, oldtype.get()?.data());
    create(newtype, Data::create_subarray(&sizes, &subsizes, &starts, order, inner, form(call))?)
}

/// Creates the datatype of a process's part of a distributed array (MPI_Type_create_darray).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn create_darray(
    call: &mut Call,
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: CountArray,
    distribs: Array<c_int>,
    dargs: Array<c_int>,
    psizes: Array<c_int>,
    order: c_int,
    oldtype: In<Datatype>,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    let ndims = i64::from(ndims);
    let distributions = distribs.slice(ndims)?.iter().map(|code| Distribution::from_code(*code));
    let array = Darray {
        size,
        rank,
        gsizes: gsizes.to_vec(ndims)?,
        distributions: distributions.collect::<Result<_>>()?,
        arguments: dargs.slice(ndims)?.to_vec(),
        psizes: psizes.slice(ndims)?.to_vec(),
        order: Order::from_code(order)?,
    };
    create(newtype, Data::create_darray(&array, oldtype.get()?.data(), form(call))?)
}

/// Creates a copy of a datatype with other bounds (MPI_Type_create_resized).
pub fn create_resized(
    call: &mut Call,
    oldtype: In<Datatype>,
    lb: i64,
    extent: i64,
    newtype: HandleOut<Datatype>,
) -> Result<()> {
    create(newtype, Data::create_resized(lb, extent, oldtype.get()?.data(), form(call))?)
}

/// Returns the datatype of Fortran reals with this precision and range (MPI_Type_create_f90_real).
pub fn create_f90_real(call: &mut Call, p: c_int, r: c_int, newtype: HandleOut<Datatype>) -> Result<()> {
    newtype.set(handle_of(&call.held, &Data::f90_real(p, r)?)?)
}

/// Returns the datatype of Fortran complex numbers of a precision and range (MPI_Type_create_f90_complex).
pub fn create_f90_complex(call: &mut Call, p: c_int, r: c_int, newtype: HandleOut<Datatype>) -> Result<()> {
    newtype.set(handle_of(&call.held, &Data::f90_complex(p, r)?)?)
}

/// Returns the datatype of Fortran integers with this range (MPI_Type_create_f90_integer).
pub fn create_f90_integer(call: &mut Call, r: c_int, newtype: HandleOut<Datatype>) -> Result<()> {
    newtype.set(handle_of(&call.held, &Data::f90_integer(r)?)?)
}

/// Returns the predefined datatype with this class and size (MPI_Type_match_size).
pub fn match_size(
    call: &mut Call,
    typeclass: c_int,
    size: c_int,
    datatype: HandleOut<Datatype>,
) -> Result<()> {
    datatype.set(handle_of(&call.held, Data::match_size(typeclass, size)?)?)
}

/// Returns the type of pairs of a value and an index, for MPI_MINLOC and MPI_MAXLOC
/// (MPI_Type_get_value_index).
pub fn get_value_index(
    call: &mut Call,
    value_type: In<Datatype>,
    index_type: In<Datatype>,
    pair_type: HandleOut<Datatype>,
) -> Result<()> {
    let pair = Data::value_index(value_type.get()?.data(), index_type.get()?.data());
    match pair {
        Some(pair) => pair_type.set(handle_of(&call.held, &pair)?),
        None => pair_type.set_null(),
    }
}

/// Duplicates a datatype with its attributes (MPI_Type_dup).
pub fn dup(call: &mut Call, oldtype: In<Datatype>, newtype: HandleOut<Datatype>) -> Result<()> {
    newtype.check()?;
    let duplicate = oldtype.get()?.duplicate(&call.held, oldtype.raw().bits())?;
    newtype.create(Arc::new(duplicate)).map(drop)
}

/// Makes a datatype ready for communication (MPI_Type_commit).
pub fn commit(_call: &mut Call, datatype: HandleOut<Datatype>) -> Result<()> {
    datatype.input()?.get()?.data().commit();
    Ok(())
}

/// Frees a datatype; pending messages that use it complete normally (MPI_Type_free).
pub fn free(call: &mut Call, datatype: HandleOut<Datatype>) -> Result<()> {
    let input = datatype.input()?;
    let object = input.get()?;
    if object.data().is_predefined() {
        let reason = "argument datatype is predefined and cannot be freed";
        return Err(Error::new(ErrorClass::Type, reason));
    }
    object.attributes().delete_all(&call.held, input.raw().bits())?;
    datatype.remove().map(drop)
}

/// Returns the number of bytes of data in a datatype (MPI_Type_size).
pub fn size(_call: &mut Call, datatype: In<Datatype>, size: CountOut) -> Result<()> {
    size.set(datatype.get()?.data().size())
}

/// Returns lower bound and extent of a datatype (MPI_Type_get_extent).
pub fn get_extent(_call: &mut Call, datatype: In<Datatype>, lb: CountOut, extent: CountOut) -> Result<()> {
    let data = datatype.get()?.data();
    lb.set(data.lb())?;
    extent.set(data.extent())
}

/// Returns the bounds of a datatype's data, without markers (MPI_Type_get_true_extent).
pub fn get_true_extent(
    _call: &mut Call,
    datatype: In<Datatype>,
    true_lb: CountOut,
    true_extent: CountOut,
) -> Result<()> {
    let data = datatype.get()?.data();
    true_lb.set(data.true_lb())?;
    true_extent.set(data.true_extent())
}

/// Returns the constructor of a datatype and the numbers of its arguments (MPI_Type_get_envelope).
pub fn get_envelope(
    _call: &mut Call,
    datatype: In<Datatype>,
    num_integers: Out<c_int>,
    num_addresses: Out<c_int>,
    num_datatypes: Out<c_int>,
    combiner: Out<c_int>,
) -> Result<()> {
    let envelope = datatype.get()?.data().envelope();
    if envelope.large_counts > 0 {
        return Err(made_with_large_counts());
    }
    num_integers.set(envelope.integers as c_int)?;
    num_addresses.set(envelope.addresses as c_int)?;
    num_datatypes.set(envelope.datatypes as c_int)?;
    combiner.set(envelope.combiner as c_int)
}

/// Returns constructor and numbers of arguments of a datatype, large counts too (MPI_Type_get_envelope_c).
pub fn get_envelope_c(
    _call: &mut Call,
    datatype: In<Datatype>,
    num_integers: Out<i64>,
    num_addresses: Out<i64>,
    num_large_counts: Out<i64>,
    num_datatypes: Out<i64>,
    combiner: Out<c_int>,
) -> Result<()> {
    let envelope = datatype.get()?.data().envelope();
    num_integers.set(envelope.integers as i64)?;
    num_addresses.set(envelope.addresses as i64)?;
    num_large_counts.set(envelope.large_counts as i64)?;
    num_datatypes.set(envelope.datatypes as i64)?;
    combiner.set(envelope.combiner as c_int)
}

fn made_with_large_counts() -> Error {
    let reason = "argument datatype was made with large counts: use the function whose name ends with _c";
    Error::new(ErrorClass::Type, reason)
}

/// Returns the constructor arguments of a datatype that is not predefined.
fn contents(datatype: In<Datatype>) -> Result<Contents> {
    let data = datatype.get()?.data();
    if data.combiner() == Combiner::Named {
        let reason = "argument datatype is a named predefined datatype, which has no contents";
        return Err(Error::new(ErrorClass::Type, reason));
    }
    Ok(data.contents())
}

/// Copies to the front of a user's array, which may be longer.
fn fill<T: Copy>(place: ArrayOut<T>, room: i64, argument: &str, values: &[T]) -> Result<()> {
    if (values.len() as i64) > room {
        let reason = format!("argument {argument} is {room}, but the datatype has {}", values.len());
        return Err(Error::new(ErrorClass::Arg, reason));
    }
    place.slice(values.len() as i64)?.copy_from_slice(values);
    Ok(())
}

/// Returns the inner datatypes: new handles for derived ones, which the program has to free.
fn fill_types(held: &LaneGuard, place: ArrayOut<MPI_Datatype>, room: i64, values: &[Data]) -> Result<()> {
    let none = vec![MPI_Datatype::predefined(0); values.len()];
    fill(place, room, "max_datatypes", &none)?;
    for (place, data) in place.slice(values.len() as i64)?.iter_mut().zip(values) {
        *place = handle_of(held, data)?;
    }
    Ok(())
}

/// Returns the arguments of a datatype's constructor (MPI_Type_get_contents).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn get_contents(
    call: &mut Call,
    datatype: In<Datatype>,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: ArrayOut<c_int>,
    addresses: ArrayOut<MPI_Aint>,
    datatypes: ArrayOut<MPI_Datatype>,
) -> Result<()> {
    let contents = contents(datatype)?;
    if !contents.large_counts.is_empty() {
        return Err(made_with_large_counts());
    }
    let narrow: Vec<MPI_Aint> = contents.addresses.iter().map(|address| *address as MPI_Aint).collect();
    fill(integers, max_integers.into(), "max_integers", &contents.integers)?;
    fill(addresses, max_addresses.into(), "max_addresses", &narrow)?;
    fill_types(&call.held, datatypes, max_datatypes.into(), &contents.datatypes)
}

/// Returns the arguments of a datatype's constructor, large counts too (MPI_Type_get_contents_c).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn get_contents_c(
    call: &mut Call,
    datatype: In<Datatype>,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    integers: ArrayOut<c_int>,
    addresses: ArrayOut<MPI_Aint>,
    large_counts: ArrayOut<i64>,
    datatypes: ArrayOut<MPI_Datatype>,
) -> Result<()> {
    let contents = contents(datatype)?;
    let narrow: Vec<MPI_Aint> = contents.addresses.iter().map(|address| *address as MPI_Aint).collect();
    fill(integers, max_integers, "max_integers", &contents.integers)?;
    fill(addresses, max_addresses, "max_addresses", &narrow)?;
    fill(large_counts, max_large_counts, "max_large_counts", &contents.large_counts)?;
    fill_types(&call.held, datatypes, max_datatypes, &contents.datatypes)
}

/// Returns the name of a datatype (MPI_Type_get_name).
pub fn get_name(
    call: &mut Call,
    datatype: In<Datatype>,
    type_name: TextOut,
    resultlen: Out<c_int>,
) -> Result<()> {
    let name = match datatype.optional()? {
        Some(object) => object.name(&call.held),
        None => ObjectName::new(b"MPI_DATATYPE_NULL"),
    };
    resultlen.set(type_name.set(name.as_bytes(), MPI_MAX_OBJECT_NAME as usize)? as c_int)
}

/// Sets the name of a datatype (MPI_Type_set_name).
pub fn set_name(call: &mut Call, datatype: In<Datatype>, type_name: Text) -> Result<()> {
    datatype.get()?.set_name(&call.held, ObjectName::new(type_name.bytes()?));
    Ok(())
}

/// Returns the address of a location in memory (MPI_Get_address).
pub fn get_address(_call: &mut Call, location: Address, address: Out<MPI_Aint>) -> Result<()> {
    address.set(location.bits() as MPI_Aint)
}
