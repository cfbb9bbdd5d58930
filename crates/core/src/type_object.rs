//! Datatypes with the state that programs attach to them: name and attributes (MPI-5 sections 5.1, 7.7, 7.8).

use std::sync::{Arc, LazyLock};

use tutti_base::Result;
use tutti_data::Datatype;

use crate::attributes::Attributes;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::names::ObjectName;

/// Datatype with its name and attributes.
#[derive(Debug)]
pub struct TypeObject {
    data: Datatype,
    name: FirstLaneCell<ObjectName>,
    attributes: Attributes,
}

/// Handles of predefined datatypes in the standard ABI.
const CODES: std::ops::Range<u32> = 0x200..0x300;

static PREDEFINED: LazyLock<Box<[Option<Arc<TypeObject>>]>> = LazyLock::new(|| {
    CODES
        .map(|code| Datatype::predefined(code).cloned().map(|data| Arc::new(TypeObject::new(data))))
        .collect()
});

impl TypeObject {
    /// Returns a datatype without attributes. A standard datatype has its standard name, others have none.
    pub fn new(data: Datatype) -> TypeObject {
        let name = data.name().map_or(ObjectName::EMPTY, |name| ObjectName::new(name.as_bytes()));
        TypeObject { data, name: FirstLaneCell::new(name), attributes: Attributes::new() }
    }

    /// Returns the predefined datatype with this handle of the ABI, in constant time.
    #[inline]
    pub fn predefined(code: u32) -> Option<&'static Arc<TypeObject>> {
        PREDEFINED.get(code.wrapping_sub(CODES.start) as usize)?.as_ref()
    }

    /// Returns the datatype for communication.
    #[inline]
    pub fn data(&self) -> &Datatype {
        &self.data
    }

    /// Returns the name of the datatype.
    pub fn name(&self, held: &LaneGuard) -> ObjectName {
        self.name.borrow(held).clone()
    }

    /// Sets the name of the datatype.
    pub fn set_name(&self, held: &LaneGuard, name: ObjectName) {
        *self.name.borrow_mut(held) = name;
    }

    /// Returns the attributes of the datatype.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns the result of `MPI_Type_dup`: without a name, and with the attributes that their copy
    /// functions allow. `handle` is the program's handle of this object.
    ///
    /// # Errors
    /// The error of the first copy function that fails.
    pub fn duplicate(&self, held: &LaneGuard, handle: usize) -> Result<TypeObject> {
        let attributes = self.attributes.duplicate(held, handle)?;
        Ok(TypeObject { attributes, ..TypeObject::new(self.data.create_dup()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::enter;

    fn check(object: &TypeObject, name: &str, predefined: bool) {
        assert_eq!(object.name(&enter()).as_bytes(), name.as_bytes());
        assert_eq!(object.data().is_predefined(), predefined);
    }

    #[test]
    fn predefined_types_are_named() {
        check(TypeObject::predefined(0x209).unwrap(), "MPI_INT", true);
        check(TypeObject::predefined(0x2eb).unwrap(), "MPI_COMPLEX32", true);
        assert!([0x1ff, 0x200, 0x204, 0x300, 0].iter().all(|code| TypeObject::predefined(*code).is_none()));
    }

    #[test]
    fn names_stay_with_the_object() {
        let held = enter();
        let double = TypeObject::predefined(0x214).unwrap();
        let duplicate = double.duplicate(&held, 0x214).unwrap();
        check(&duplicate, "", false);
        duplicate.set_name(&held, ObjectName::new(b"row"));
        check(&duplicate, "row", false);
        check(double, "MPI_DOUBLE", true);
    }
}
