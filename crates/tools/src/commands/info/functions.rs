//! Table of the implemented MPI functions, which the code generator writes.

#[path = "../../../../abi/src/generated/functions.rs"]
mod generated;

pub use generated::FUNCTIONS;

/// Returns the number of implemented functions.
pub fn implemented() -> usize {
    FUNCTIONS.iter().filter(|(_, implemented)| *implemented).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_has_its_functions() {
        assert_eq!(FUNCTIONS.len(), 664);
        assert!(FUNCTIONS.contains(&("MPI_Get_version", true)));
        assert!(implemented() <= FUNCTIONS.len());
    }
}
