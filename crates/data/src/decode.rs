//! Decoding: the constructor arguments of a datatype, in the order of MPI-5 section 5.1.13.
//!
//! Under the int form counts are integers and byte displacements addresses; under the `_c` form both are
//! large counts, while arguments that are `int` in both bindings (ndims, order, ranks, ..) stay integers.

use crate::darray::Darray;
use crate::datatype::{Constructor, Datatype, Form, FortranKind};

/// Constructor of a datatype. The discriminants are the `MPI_COMBINER_*` of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are those of the standard, less their prefix MPI_COMBINER_")]
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
    ValueIndex = 117,
}

/// Constructor of a datatype and the array lengths of [`Contents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Constructor that made the datatype.
    pub combiner: Combiner,
    /// Length of the array [`Contents::integers`].
    pub integers: usize,
    /// Length of the array [`Contents::addresses`].
    pub addresses: usize,
    /// Length of the array [`Contents::large_counts`]. If not 0, `MPI_Type_get_contents` may not be used.
    pub large_counts: usize,
    /// Length of the array [`Contents::datatypes`].
    pub datatypes: usize,
}

/// Arguments of the constructor (`MPI_Type_get_contents_c`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Integer arguments, `array_of_integers` in MPI.
    pub integers: Vec<i32>,
    /// Address arguments, `array_of_addresses` in MPI.
    pub addresses: Vec<i64>,
    /// Large counts, `array_of_large_counts` in MPI.
    pub large_counts: Vec<i64>,
    /// Inner datatypes, `array_of_datatypes` in MPI.
    pub datatypes: Vec<Datatype>,
}

impl Contents {
    /// Appends counts where this form keeps them.
    fn counts(&mut self, form: Form, values: &[i64]) {
        match form {
            // The int binding cannot have passed more than an int.
            Form::Int => self.integers.extend(values.iter().map(|value| *value as i32)),
            Form::Count => self.large_counts.extend(values),
        }
    }

    /// Appends byte displacements where this form keeps them.
    fn displacements(&mut self, form: Form, values: &[i64]) {
        match form {
            Form::Int => self.addresses.extend(values),
            Form::Count => self.large_counts.extend(values),
        }
    }

    fn darray(&mut self, form: Form, array: &Darray) {
        let dimensions = array.gsizes.len() as i32;
        self.integers.extend([array.size, array.rank, dimensions]);
        self.counts(form, &array.gsizes);
        self.integers.extend(array.distributions.iter().map(|distribution| *distribution as i32));
        self.integers.extend(&array.arguments);
        self.integers.extend(&array.psizes);
        self.integers.push(array.order as i32);
    }
}

impl Datatype {
    /// Returns the constructor that made this datatype.
    pub fn combiner(&self) -> Combiner {
        match &self.0.constructor {
            Constructor::Named(_) => Combiner::Named,
            Constructor::Dup(_) => Combiner::Dup,
            Constructor::Contiguous { .. } => Combiner::Contiguous,
            Constructor::Vector { .. } => Combiner::Vector,
            Constructor::Hvector { .. } => Combiner::Hvector,
            Constructor::Indexed { .. } => Combiner::Indexed,
            Constructor::Hindexed { .. } => Combiner::Hindexed,
            Constructor::IndexedBlock { .. } => Combiner::IndexedBlock,
            Constructor::HindexedBlock { .. } => Combiner::HindexedBlock,
            Constructor::Struct { .. } => Combiner::Struct,
            Constructor::Subarray { .. } => Combiner::Subarray,
            Constructor::Darray { .. } => Combiner::Darray,
            Constructor::Resized { .. } => Combiner::Resized,
            Constructor::Fortran { kind: FortranKind::Real { .. }, .. } => Combiner::F90Real,
            Constructor::Fortran { kind: FortranKind::Complex { .. }, .. } => Combiner::F90Complex,
            Constructor::Fortran { kind: FortranKind::Integer { .. }, .. } => Combiner::F90Integer,
            Constructor::ValueIndex { .. } => Combiner::ValueIndex,
        }
    }

    /// Returns the array lengths, for `MPI_Type_get_envelope`.
    pub fn envelope(&self) -> Envelope {
        let contents = self.contents();
        Envelope {
            combiner: self.combiner(),
            integers: contents.integers.len(),
            addresses: contents.addresses.len(),
            large_counts: contents.large_counts.len(),
            datatypes: contents.datatypes.len(),
        }
    }

    /// Returns the constructor's arguments, for `MPI_Type_get_contents`. Empty for a named type, where that
    /// call is an error.
    pub fn contents(&self) -> Contents {
        let (form, mut all) = (self.0.form, Contents::default());
        match &self.0.constructor {
            Constructor::Named(_) | Constructor::Dup(_) => {}
            Constructor::Contiguous { count, .. } => all.counts(form, &[*count]),
            Constructor::Vector { count, blocklength, stride, .. } => {
                all.counts(form, &[*count, *blocklength, *stride]);
            }
            Constructor::Hvector { count, blocklength, stride, .. } => {
                all.counts(form, &[*count, *blocklength]);
                all.displacements(form, &[*stride]);
            }
            Constructor::Indexed { blocklengths, displacements, .. } => {
                all.counts(form, &[blocklengths.len() as i64]);
                all.counts(form, blocklengths);
                all.counts(form, displacements);
            }
            Constructor::Hindexed { blocklengths, displacements, .. }
            | Constructor::Struct { blocklengths, displacements, .. } => {
                all.counts(form, &[blocklengths.len() as i64]);
                all.counts(form, blocklengths);
                all.displacements(form, displacements);
            }
            Constructor::IndexedBlock { blocklength, displacements, .. } => {
                all.counts(form, &[displacements.len() as i64, *blocklength]);
                all.counts(form, displacements);
            }
            Constructor::HindexedBlock { blocklength, displacements, .. } => {
                all.counts(form, &[displacements.len() as i64, *blocklength]);
                all.displacements(form, displacements);
            }
            Constructor::Subarray { sizes, subsizes, starts, order, .. } => {
                all.integers.push(sizes.len() as i32);
                [sizes, subsizes, starts].iter().for_each(|values| all.counts(form, values));
                all.integers.push(*order as i32);
            }
            Constructor::Darray { array, .. } => all.darray(form, array),
            Constructor::Resized { lb, extent, .. } => all.displacements(form, &[*lb, *extent]),
            Constructor::Fortran { kind, .. } => match kind {
                FortranKind::Real { precision, range } | FortranKind::Complex { precision, range } => {
                    all.integers.extend([*precision, *range]);
                }
                FortranKind::Integer { range } => all.integers.push(*range),
            },
            Constructor::ValueIndex { row } => {
                let (value, index) = row.pair.expect("a value-index type is made from a pair");
                all.datatypes.extend([value, index].into_iter().filter_map(Datatype::predefined).cloned());
            }
        }
        all.datatypes.extend_from_slice(self.0.constructor.inner());
        all
    }
}
