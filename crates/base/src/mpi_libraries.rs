//! MPI libraries by the names of their files.
//!
//! The dynamic loader decides by names which library a program gets. `libmpi_abi.so` is the standard ABI
//! (MPI-5 chapter 20), which Tutti is; `libmpi.so.12` that of MPICH and its kin; `libmpi.so.40` that of Open
//! MPI.

/// The interface of an MPI library, by the name under which programs ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// `libmpi_abi.so.N`: the standard's.
    Standard,
    /// `libmpi.so.12` and its companion libraries: that of MPICH, Intel MPI, MVAPICH.
    Mpich,
    /// `libmpi.so.40` and its companion libraries: that of Open MPI 4 and 5.
    OpenMpi,
    /// Some other.
    Other,
}

impl Abi {
    /// Returns whose it is, for people.
    pub fn owner(self) -> &'static str {
        match self {
            Abi::Standard => "the standard ABI",
            Abi::Mpich => "MPICH, Intel MPI and their kin",
            Abi::OpenMpi => "Open MPI",
            Abi::Other => "another MPI library (or another version of one)",
        }
    }

    /// Returns the interface of a library of this name, if it is one of MPI.
    pub fn from_name(name: &[u8]) -> Option<Abi> {
        let (stem, major) = split(name)?;
        match (stem, major) {
            ("libmpi_abi", _) => Some(Abi::Standard),
            ("libmpi" | "libmpich" | "libmpicxx" | "libmpichcxx", "12") => Some(Abi::Mpich),
            ("libmpifort" | "libmpichfort" | "libmpichf90" | "libfmpich", "12") => Some(Abi::Mpich),
            ("libmpi" | "libmpi_cxx" | "libmpi_mpifh" | "libmpi_usempi" | "libmpi_usempif08", "40") => {
                Some(Abi::OpenMpi)
            }
            ("libmpi_usempi_ignore_tkr" | "liboshmem", "40") => Some(Abi::OpenMpi),
            ("libmpi" | "libmpich" | "libmpi_cxx" | "libmpi_mpifh" | "libmpt" | "libmpi_cray", _) => {
                Some(Abi::Other)
            }
            ("libmpi_gnu" | "libmpi_intel" | "libmpi_aocc" | "libmpi_nvidia", _) => Some(Abi::Other),
            _ => None,
        }
    }
}

/// Returns true if a file of this name is the library of C functions of another MPI. Companion libraries,
/// which call it, do not count.
pub fn is_core_library(name: &[u8]) -> bool {
    const STEMS: [&str; 8] = [
        "libmpi",
        "libmpich",
        "libmpt",
        "libmpi_cray",
        "libmpi_gnu",
        "libmpi_intel",
        "libmpi_aocc",
        "libmpi_nvidia",
    ];
    split(name).is_some_and(|(stem, _)| STEMS.contains(&stem))
}

/// Splits the name of a library into its stem and the first number of its version.
fn split(name: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(name).ok()?;
    let (stem, version) = text.split_once(".so")?;
    Some((stem, version.trim_start_matches('.').split('.').next().unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<Abi>, is_core: bool) {
        assert_eq!(Abi::from_name(name.as_bytes()), expected, "{name}");
        assert_eq!(is_core_library(name.as_bytes()), is_core, "{name}");
    }

    #[test]
    fn libraries_are_told_by_their_names() {
        check("libmpi_abi.so.1", Some(Abi::Standard), false);
        check("libmpi.so.12", Some(Abi::Mpich), true);
        check("libmpich.so.12.1.8", Some(Abi::Mpich), true);
        check("libmpichfort.so.12", Some(Abi::Mpich), false);
        check("libmpi.so.40", Some(Abi::OpenMpi), true);
        check("libmpi.so.40.30.4", Some(Abi::OpenMpi), true);
        check("libmpi_usempif08.so.40", Some(Abi::OpenMpi), false);
        check("libmpi.so.20", Some(Abi::Other), true);
        check("libmpi.so", Some(Abi::Other), true);
        check("libmpi_cray.so.12", Some(Abi::Other), true);
        check("libmpfr.so.6", None, false);
        check("libmpi", None, false);
        check("libmpicolour.so.12", None, false);
    }
}
