//! The constructors of MPI-5 chapter 5, each with its argument checks.
//!
//! Counts and displacements are 64-bit here whichever binding was called; [`Form`] says which, for
//! decoding. An error names the argument.

use crate::darray::Darray;
use crate::datatype::{Constructor, Datatype, Form};
use crate::order::Order;
use tutti_base::{Error, ErrorClass, Result};

fn non_negative(class: ErrorClass, name: &str, value: i64) -> Result<()> {
    match value < 0 {
        true => Err(Error::new(class, format!("{name} is {value}; give 0 or more"))),
        false => Ok(()),
    }
}

fn all_non_negative(name: &str, values: &[i64]) -> Result<()> {
    let check = |(i, value): (usize, &i64)| match *value < 0 {
        true => Err(Error::new(ErrorClass::Arg, format!("{name}[{i}] is {value}; give 0 or more"))),
        false => Ok(()),
    };
    values.iter().enumerate().try_for_each(check)
}

fn same_length(name: &str, length: usize, other: &str, expected: usize) -> Result<()> {
    match length == expected {
        true => Ok(()),
        false => Err(Error::new(
            ErrorClass::Arg,
            format!("{name} has {length} entries and {other} {expected}; give as many of both"),
        )),
    }
}

/// Lengths and displacements of blocks.
type Blocks = (Box<[i64]>, Box<[i64]>);

fn indexed(blocklengths: &[i64], displacements: &[i64]) -> Result<Blocks> {
    same_length("array_of_displacements", displacements.len(), "array_of_blocklengths", blocklengths.len())?;
    all_non_negative("array_of_blocklengths", blocklengths)?;
    Ok((blocklengths.into(), displacements.into()))
}

impl Datatype {
    /// Copies the type into a new object, committed if this one is (`MPI_Type_dup`).
    pub fn create_dup(&self) -> Datatype {
        // Only the nesting limit can refuse, and the same object is as good as a duplicate then.
        let Ok(duplicate) = Datatype::new(Constructor::Dup(self.clone()), Form::Int) else {
            return self.clone();
        };
        if self.is_committed() {
            duplicate.commit();
        }
        duplicate
    }

    /// Creates `count` items one after the other (`MPI_Type_contiguous`).
    pub fn create_contiguous(count: i64, inner: &Datatype, form: Form) -> Result<Datatype> {
        non_negative(ErrorClass::Count, "count", count)?;
        Datatype::new(Constructor::Contiguous { count, inner: inner.clone() }, form)
    }

    /// Creates `count` blocks, `stride` extents of `inner` apart (`MPI_Type_vector`).
    pub fn create_vector(
        count: i64,
        blocklength: i64,
        stride: i64,
        inner: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        non_negative(ErrorClass::Count, "count", count)?;
        non_negative(ErrorClass::Arg, "blocklength", blocklength)?;
        Datatype::new(Constructor::Vector { count, blocklength, stride, inner: inner.clone() }, form)
    }

    /// Creates `count` blocks, `stride` bytes apart (`MPI_Type_create_hvector`).
    pub fn create_hvector(
        count: i64,
        blocklength: i64,
        stride: i64,
        inner: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        non_negative(ErrorClass::Count, "count", count)?;
        non_negative(ErrorClass::Arg, "blocklength", blocklength)?;
        Datatype::new(Constructor::Hvector { count, blocklength, stride, inner: inner.clone() }, form)
    }

    /// Creates blocks at displacements in extents of `inner` (`MPI_Type_indexed`).
    pub fn create_indexed(
        blocklengths: &[i64],
        displacements: &[i64],
        inner: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        let (blocklengths, displacements) = indexed(blocklengths, displacements)?;
        Datatype::new(Constructor::Indexed { blocklengths, displacements, inner: inner.clone() }, form)
    }

    /// Creates blocks at displacements in bytes (`MPI_Type_create_hindexed`).
    pub fn create_hindexed(
        blocklengths: &[i64],
        displacements: &[i64],
        inner: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        let (blocklengths, displacements) = indexed(blocklengths, displacements)?;
        Datatype::new(Constructor::Hindexed { blocklengths, displacements, inner: inner.clone() }, form)
    }

    /// Creates blocks of one length at displacements in extents of `inner` (`MPI_Type_create_indexed_block`).
    pub fn create_indexed_block(
        blocklength: i64,
        displacements: &[i64],
        inner: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        non_negative(ErrorClass::Arg, "blocklength", blocklength)?;
        let displacements = displacements.into();
        Datatype::new(Constructor::IndexedBlock { blocklength, displacements, inner: inner.clone() }, form)
    }

    /// Creates blocks of one length at displacements in bytes (`MPI_Type_create_hindexed_block`).
    pub fn create_hindexed_block(
        blocklength: i64,
        displacements: &[i64],
        inner: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        non_negative(ErrorClass::Arg, "blocklength", blocklength)?;
        let displacements = displacements.into();
        Datatype::new(Constructor::HindexedBlock { blocklength, displacements, inner: inner.clone() }, form)
    }

    /// Creates blocks of different types at displacements in bytes (`MPI_Type_create_struct`).
    pub fn create_struct(
        blocklengths: &[i64],
        displacements: &[i64],
        inner: &[Datatype],
        form: Form,
    ) -> Result<Datatype> {
        same_length("array_of_types", inner.len(), "array_of_blocklengths", blocklengths.len())?;
        let (blocklengths, displacements) = indexed(blocklengths, displacements)?;
        Datatype::new(Constructor::Struct { blocklengths, displacements, inner: inner.into() }, form)
    }

    /// Creates a box of an array, with the extent of the whole array (`MPI_Type_create_subarray`).
    pub fn create_subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        inner: &Datatype,
        form: Form,
    ) -> Result<Datatype> {
        if sizes.is_empty() {
            return Err(Error::new(ErrorClass::Arg, "ndims is 0; an array has at least one dimension"));
        }
        same_length("array_of_subsizes", subsizes.len(), "array_of_sizes", sizes.len())?;
        same_length("array_of_starts", starts.len(), "array_of_sizes", sizes.len())?;
        for (i, ((size, subsize), start)) in sizes.iter().zip(subsizes).zip(starts).enumerate() {
            if *size < 1 || *subsize < 1 || subsize > size {
                let message =
                    format!("subsizes[{i}] is {subsize} and sizes[{i}] {size}; give 1 <= subsize <= size");
                return Err(Error::new(ErrorClass::Arg, message));
            }
            if *start < 0 || *start > size - subsize {
                let message = format!(
                    "starts[{i}] is {start}; give 0 <= start <= sizes - subsizes = {}",
                    size - subsize
                );
                return Err(Error::new(ErrorClass::Arg, message));
            }
        }
        let (sizes, subsizes, starts) = (sizes.into(), subsizes.into(), starts.into());
        Datatype::new(Constructor::Subarray { sizes, subsizes, starts, order, inner: inner.clone() }, form)
    }

    /// Creates one process's share of a distributed array (`MPI_Type_create_darray`).
    pub fn create_darray(array: &Darray, inner: &Datatype, form: Form) -> Result<Datatype> {
        array.validate()?;
        Datatype::new(Constructor::Darray { array: Box::new(array.clone()), inner: inner.clone() }, form)
    }

    /// Creates a type with the same data and other bounds (`MPI_Type_create_resized`).
    pub fn create_resized(lb: i64, extent: i64, inner: &Datatype, form: Form) -> Result<Datatype> {
        Datatype::new(Constructor::Resized { lb, extent, inner: inner.clone() }, form)
    }
}
