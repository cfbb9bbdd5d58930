//! Objects behind the handles: the type of the objects of each kind, and the creation of predefined ones at
//! their first lookup (`predefined(number)` in the module of the kind).

use std::sync::Arc;

use tutti_core::error_handler::ErrorHandler;
use tutti_core::lanes::FirstLaneCell;

use crate::handles::kind::{Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Session, Win};
use crate::handles::{Stored, Table};

macro_rules! stored {
    ($($name:ident: $object:ty = $predefined:path;)*) => {
        $(
            impl Stored for $name {
                type Object = $object;
                fn table() -> &'static Table<$object> {
                    static TABLE: Table<$object> = Table::new();
                    &TABLE
                }
                fn predefined(number: usize) -> Option<$object> {
                    $predefined(number)
                }
            }
        )*
    };
}

// The objects behind the handles. A predefined object is made when it is first looked up.
stored! {
    Group: tutti_core::group::Group = super::group::predefined;
    Info: FirstLaneCell<tutti_core::info::Info> = super::info::predefined;
    Errhandler: ErrorHandler = super::error_handler::predefined;
    Comm: Arc<tutti_core::communicator::Communicator> = super::comm::predefined;
    Datatype: Arc<tutti_core::type_object::TypeObject> = super::datatype::predefined;
    Op: tutti_data::Op = super::op::predefined;
    Win: Arc<tutti_core::window::Window> = nothing;
    File: Arc<tutti_io::File> = nothing;
    Session: tutti_core::session::Session = nothing;
    Message: Arc<tutti_core::point_to_point::Matched> = nothing;
}

fn nothing<T>(_number: usize) -> Option<T> {
    None
}
