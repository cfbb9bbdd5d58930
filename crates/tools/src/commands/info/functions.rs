//! Which MPI functions are implemented, from the table that the code generator keeps.

#[path = "../../../../abi/src/generated/functions.rs"]
mod generated;

pub use generated::FUNCTIONS;

/// How many functions are implemented.
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
