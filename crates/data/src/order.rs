//! The storage order of arrays.

use tutti_base::{Error, ErrorClass, Result};

/// Storage order of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last dimension is contiguous.
    C = 0xc,
    /// The first dimension is contiguous.
    Fortran = 0xf,
}

impl Order {
    /// Returns the order for `MPI_ORDER_C` or `MPI_ORDER_FORTRAN`; an argument error otherwise.
    pub fn from_code(code: i32) -> Result<Order> {
        match code {
            0xc => Ok(Order::C),
            0xf => Ok(Order::Fortran),
            _ => Err(Error::new(
                ErrorClass::Arg,
                format!("order is {code}; give MPI_ORDER_C or MPI_ORDER_FORTRAN"),
            )),
        }
    }
}

/// Returns the dimensions of an array from the contiguous one outwards.
pub(crate) fn inwards_first(order: Order, dimensions: usize) -> Box<dyn Iterator<Item = usize>> {
    match order {
        Order::C => Box::new((0..dimensions).rev()),
        Order::Fortran => Box::new(0..dimensions),
    }
}
