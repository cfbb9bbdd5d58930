//! Categories of variables and events (MPI-5 section 15.3.9): one for the settings, one for each area of
//! counters, and a common parent.

use std::ffi::c_int;

use tutti_base::Result;
use tutti_base::config::CONTROL_VARIABLES;
use tutti_core::tool::events::KINDS;
use tutti_core::tool::variables::{self, AREAS};

use super::{give, index_of, item, put, ready};
use crate::entry::Call;
use crate::scope::{ArrayOut, Out, Text, TextOut};

/// Name and meaning of all categories: the whole, the settings, the areas.
const CATEGORIES: [(&str, &str); 2 + AREAS.len()] = {
    let mut all = [("tutti", "all of Tutti"); 2 + AREAS.len()];
    all[1] = ("tutti_settings", "settings: the variables TUTTI_* of the environment");
    let mut area = 0;
    while area < AREAS.len() {
        all[2 + area] = AREAS[area];
        area += 1;
    }
    all
};

/// Returns the indices of those `areas` that are in a category.
fn members(category: c_int, areas: impl Iterator<Item = usize>) -> Vec<c_int> {
    let inside = (0..).zip(areas).filter(|(_, area)| *area as c_int + 2 == category);
    inside.map(|(number, _)| number).collect()
}

fn controls(category: c_int) -> Vec<c_int> {
    if category == 1 { (0..CONTROL_VARIABLES.len() as c_int).collect() } else { Vec::new() }
}

fn performance(category: c_int) -> Vec<c_int> {
    members(category, variables::all().iter().map(|variable| variable.area))
}

fn events(category: c_int) -> Vec<c_int> {
    members(category, KINDS.iter().map(|kind| kind.area))
}

fn below(category: c_int) -> Vec<c_int> {
    if category == 0 { (1..CATEGORIES.len() as c_int).collect() } else { Vec::new() }
}

fn list(
    call: &Call,
    category: c_int,
    of: fn(c_int) -> Vec<c_int>,
    length: c_int,
    indices: ArrayOut<c_int>,
) -> Result<()> {
    ready(call)?;
    item(&CATEGORIES, category, "cat_index")?;
    let members = of(category);
    let room = indices.slice(length.into())?;
    room.iter_mut().zip(members).for_each(|(place, member)| *place = member);
    Ok(())
}

/// Returns the number of categories of variables and events (MPI_T_category_get_num).
pub fn category_get_num(call: &mut Call, num_cat: Out<c_int>) -> Result<()> {
    ready(call)?;
    num_cat.set(CATEGORIES.len() as c_int)
}

/// Returns the description of a category (MPI_T_category_get_info).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn category_get_info(
    call: &mut Call,
    cat_index: c_int,
    name: TextOut,
    name_len: Out<c_int>,
    desc: TextOut,
    desc_len: Out<c_int>,
    num_cvars: Out<c_int>,
    num_pvars: Out<c_int>,
    num_categories: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    let (title, meaning) = item(&CATEGORIES, cat_index, "cat_index")?;
    give(title, name, name_len)?;
    give(meaning, desc, desc_len)?;
    put(num_cvars, controls(cat_index).len() as c_int)?;
    put(num_pvars, performance(cat_index).len() as c_int)?;
    put(num_categories, below(cat_index).len() as c_int)
}

/// Returns the number of event types in a category (MPI_T_category_get_num_events).
pub fn category_get_num_events(call: &mut Call, cat_index: c_int, num_events: Out<c_int>) -> Result<()> {
    ready(call)?;
    item(&CATEGORIES, cat_index, "cat_index")?;
    num_events.set(events(cat_index).len() as c_int)
}

/// Returns the index of the category with this name (MPI_T_category_get_index).
pub fn category_get_index(call: &mut Call, name: Text, cat_index: Out<c_int>) -> Result<()> {
    ready(call)?;
    cat_index.set(index_of(name, CATEGORIES.iter().map(|category| category.0))?)
}

/// Returns the control variables in a category (MPI_T_category_get_cvars).
pub fn category_get_cvars(
    call: &mut Call,
    cat_index: c_int,
    len: c_int,
    indices: ArrayOut<c_int>,
) -> Result<()> {
    list(call, cat_index, controls, len, indices)
}

/// Returns the performance variables in a category (MPI_T_category_get_pvars).
pub fn category_get_pvars(
    call: &mut Call,
    cat_index: c_int,
    len: c_int,
    indices: ArrayOut<c_int>,
) -> Result<()> {
    list(call, cat_index, performance, len, indices)
}

/// Returns the event types in a category (MPI_T_category_get_events).
pub fn category_get_events(
    call: &mut Call,
    cat_index: c_int,
    len: c_int,
    indices: ArrayOut<c_int>,
) -> Result<()> {
    list(call, cat_index, events, len, indices)
}

/// Returns the subcategories of a category (MPI_T_category_get_categories).
pub fn category_get_categories(
    call: &mut Call,
    cat_index: c_int,
    len: c_int,
    indices: ArrayOut<c_int>,
) -> Result<()> {
    list(call, cat_index, below, len, indices)
}

/// Returns a constant, as categories never change (MPI_T_category_changed).
pub fn category_changed(call: &mut Call, update_number: Out<c_int>) -> Result<()> {
    ready(call)?;
    update_number.set(0)
}
