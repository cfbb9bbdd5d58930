//! Interface to isl, the integer set library: unions of sets and relations of integer points. Affine
//! constraints with parameters bound them.
//!
//! Sets and relations are written and read as isl's text (`[N] -> { S[i] -> a[i + 1] : 0 <= i < N }`). The
//! few functions that combine them are declared here and looked up in the library at run time. gcc needs isl,
//! so a host with gcc has libisl.
//!
//! # Safety
//! Functions of isl that consume an object (`__isl_take`) receive a copy (isl_*_copy increments a reference
//! count). Each result is owned by one [`Object`], and freed once by the function of its type. A null pointer
//! is an error. isl returns null for null, so it propagates like NaN, and [`Isl::failure`] stores the first
//! reason. Properties of null have no meaning (empty, no bound, no text). All objects hold the context, which
//! therefore outlives them. Nothing is shared between threads (`Rc`).
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

use libloading::Library;

use crate::refusal::Unsupported;

type Pointer = *mut c_void;

/// Operations of isl for one region, after which the region is too much for it: some seconds.
const MOST_OPERATIONS: c_ulong = 10_000_000;

struct Context {
    library: Library,
    context: Pointer,
    failure: RefCell<Option<String>>,
}

/// The loaded library isl, with its context.
#[derive(Clone)]
pub struct Isl(Rc<Context>);

struct Object {
    isl: Isl,
    pointer: Pointer,
    /// Prefix of the names of the type's functions: `isl_union_set` or `isl_union_map`.
    prefix: &'static str,
}

impl Clone for Object {
    fn clone(&self) -> Object {
        Object { isl: self.isl.clone(), pointer: self.share(), prefix: self.prefix }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.pointer.is_null() {
            return;
        }
        // SAFETY: this object owns one use of the pointer.
        unsafe {
            self.isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>(&format!("{}_free", self.prefix))(
                self.pointer,
            )
        };
    }
}

/// A union of sets.
#[derive(Clone)]
pub struct Set(Object);

/// A union of relations.
#[derive(Clone)]
pub struct Map(Object);

impl Isl {
    /// Loads libisl and creates its context.
    pub fn load() -> Result<Isl, Unsupported> {
        for name in ["libisl.so.23", "libisl.so.22", "libisl.so"] {
            // SAFETY: libisl has no initialisers.
            let Ok(library) = (unsafe { Library::new(name) }) else { continue };
            // SAFETY: the type of isl_ctx_alloc, which is looked up and called while the library is loaded.
            let context = unsafe {
                library.get::<unsafe extern "C" fn() -> Pointer>(b"isl_ctx_alloc").map(|make| make())
            };
            let Ok(context) = context else { continue };
            let isl = Isl(Rc::new(Context { library, context, failure: RefCell::new(None) }));
            const CONTINUE: c_int = 1;
            // SAFETY: both functions set numbers of the context, which is alive.
            unsafe {
                isl.get::<unsafe extern "C" fn(Pointer, c_int) -> c_int>("isl_options_set_on_error")(
                    context, CONTINUE,
                );
                isl.get::<unsafe extern "C" fn(Pointer, c_ulong)>("isl_ctx_set_max_operations")(
                    context,
                    MOST_OPERATIONS,
                );
            }
            return Ok(isl);
        }
        Err(Unsupported::general(
            "libisl was not found; install it (Debian, Ubuntu: apt-get install libisl23)",
        ))
    }

    /// Returns the reason of the first error since the last call of [`Isl::begin`].
    pub fn failure(&self) -> Option<String> {
        self.0.failure.borrow().clone()
    }

    /// Forgets errors and the operations that are counted.
    pub fn begin(&self) {
        self.0.failure.replace(None);
        // SAFETY: the functions set fields of the context, which is alive.
        unsafe {
            self.get::<unsafe extern "C" fn(Pointer)>("isl_ctx_reset_operations")(self.0.context);
            self.get::<unsafe extern "C" fn(Pointer)>("isl_ctx_reset_error")(self.0.context);
        }
    }

    /// Notes that isl has failed.
    fn fail(&self) {
        // SAFETY: isl_ctx_last_error_msg gives null or a text of isl's own that stays until the next error.
        let reason = unsafe {
            let text = self.get::<unsafe extern "C" fn(Pointer) -> *const c_char>("isl_ctx_last_error_msg")(
                self.0.context,
            );
            if text.is_null() {
                "unknown error".to_string()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        self.0.failure.borrow_mut().get_or_insert(reason);
    }

    /// Parses a set in isl's notation.
    pub fn set(&self, text: &str) -> Set {
        Set(self.read("isl_union_set", text))
    }

    /// Parses a relation in isl's notation.
    pub fn map(&self, text: &str) -> Map {
        Map(self.read("isl_union_map", text))
    }

    /// Returns the exact flow: for each instance of `reads`, the last instance of `writes` by `schedule` that
    /// wrote the place before.
    pub fn flow(&self, reads: &Map, writes: &Map, schedule: &Map) -> Map {
        type One = unsafe extern "C" fn(Pointer) -> Pointer;
        type Two = unsafe extern "C" fn(Pointer, Pointer) -> Pointer;
        // SAFETY: each function takes over what it is given, which are copies or results that nobody else
        // holds.
        unsafe {
            let info = self.get::<One>("isl_union_access_info_from_sink")(reads.0.share());
            let info = self.get::<Two>("isl_union_access_info_set_must_source")(info, writes.0.share());
            let info = self.get::<Two>("isl_union_access_info_set_schedule_map")(info, schedule.0.share());
            let flow = self.get::<One>("isl_union_access_info_compute_flow")(info);
            let must = self.get::<One>("isl_union_flow_get_must_dependence")(flow);
            self.get::<One>("isl_union_flow_free")(flow);
            Map(self.own("isl_union_map", must))
        }
    }

    /// Returns loops in C over the points of `order`, a relation of points to their times. `context`
    /// constrains the parameters, `iterators` are the loop variables. Each point becomes a call: `a(x, y);`.
    pub fn loops(&self, order: &Map, context: &str, iterators: &[String]) -> String {
        type One = unsafe extern "C" fn(Pointer) -> Pointer;
        type Two = unsafe extern "C" fn(Pointer, Pointer) -> Pointer;
        let set = CString::new(context).expect("our texts hold no zero bytes");
        // SAFETY: each function takes over what it is given, but for isl_ast_node_to_C_str, which gives a
        // text that is freed with free.
        unsafe {
            let read =
                self.get::<unsafe extern "C" fn(Pointer, *const c_char) -> Pointer>("isl_set_read_from_str");
            let build = self.get::<One>("isl_ast_build_from_context")(read(self.0.context, set.as_ptr()));
            let list = self.get::<unsafe extern "C" fn(Pointer, c_int) -> Pointer>("isl_id_list_alloc");
            let mut names = list(self.0.context, iterators.len() as c_int);
            for iterator in iterators {
                let name = CString::new(iterator.as_str()).expect("a name holds no zero bytes");
                let id = self
                    .get::<unsafe extern "C" fn(Pointer, *const c_char, Pointer) -> Pointer>("isl_id_alloc");
                names = self.get::<Two>("isl_id_list_add")(
                    names,
                    id(self.0.context, name.as_ptr(), std::ptr::null_mut()),
                );
            }
            let build = self.get::<Two>("isl_ast_build_set_iterators")(build, names);
            let node = self.get::<Two>("isl_ast_build_node_from_schedule_map")(build, order.0.share());
            // The builder is kept by that function.
            self.get::<One>("isl_ast_build_free")(build);
            if node.is_null() {
                self.fail();
                return String::new();
            }
            let text = self.text(self.get::<One>("isl_ast_node_to_C_str")(node));
            self.get::<One>("isl_ast_node_free")(node);
            text
        }
    }

    /// Returns an expression in C that holds where the parameters are in `set`, if they are in `context`, or
    /// `None` if they never are.
    pub fn condition(&self, set: &str, context: &str) -> Option<String> {
        let (set, context) = (self.parameters(set), self.parameters(context));
        let both = set.two("isl_set_intersect", &context, ONE_SET);
        if both.is_empty() {
            None
        } else {
            Some(self.expression("isl_ast_build_expr_from_set", &set, &context))
        }
    }

    /// Returns the condition under which `set` has a point, if the parameters are in `context`, and the
    /// bounds of each coordinate. All are expressions in C. Returns `None` if there is no point.
    pub fn extent(&self, set: &Set, dimensions: usize, context: &str) -> Option<(String, Vec<[String; 2]>)> {
        if set.is_empty() {
            return None;
        }
        let context = self.parameters(context);
        let set = set.0.one("isl_set_from_union_set", ONE_SET);
        let set = set.two("isl_set_intersect_params", &context, ONE_SET).one("isl_set_coalesce", ONE_SET);
        if set.is_empty() {
            return None;
        }
        let given = set.one("isl_set_params", ONE_SET).one("isl_set_coalesce", ONE_SET);
        let ends = (0..dimensions).map(|at| {
            ["isl_set_dim_min", "isl_set_dim_max"].map(|name| {
                // SAFETY: the function takes over the copy and gives a piecewise expression.
                let end = unsafe {
                    self.get::<unsafe extern "C" fn(Pointer, c_int) -> Pointer>(name)(
                        set.share(),
                        at as c_int,
                    )
                };
                let end = self.own(PIECEWISE, end).one("isl_pw_aff_coalesce", PIECEWISE);
                self.expression("isl_ast_build_expr_from_pw_aff", &end, &given)
            })
        });
        let ends = ends.collect();
        Some((self.expression("isl_ast_build_expr_from_set", &given, &context), ends))
    }

    /// Returns a set of parameters.
    fn parameters(&self, text: &str) -> Object {
        self.read(ONE_SET, text)
    }

    /// Returns as C the result of the function `name` of a builder under `context` for `what`.
    fn expression(&self, name: &str, what: &Object, context: &Object) -> String {
        type One = unsafe extern "C" fn(Pointer) -> Pointer;
        type Two = unsafe extern "C" fn(Pointer, Pointer) -> Pointer;
        // SAFETY: the builder takes over a copy of the context, the function `name` a copy of `what` and
        // keeps the builder, isl_ast_expr_to_C_str keeps the expression; both are freed once.
        unsafe {
            let build = self.get::<One>("isl_ast_build_from_context")(context.share());
            let expression = self.get::<Two>(name)(build, what.share());
            self.get::<One>("isl_ast_build_free")(build);
            if expression.is_null() {
                self.fail();
                return String::new();
            }
            let text = self.text(self.get::<One>("isl_ast_expr_to_C_str")(expression));
            self.get::<One>("isl_ast_expr_free")(expression);
            text
        }
    }

    fn read(&self, prefix: &'static str, text: &str) -> Object {
        let words = CString::new(text).expect("our texts hold no zero bytes");
        // SAFETY: isl reads the text and keeps nothing of it.
        let pointer = unsafe {
            self.get::<unsafe extern "C" fn(Pointer, *const c_char) -> Pointer>(&format!(
                "{prefix}_read_from_str"
            ))(self.0.context, words.as_ptr())
        };
        self.own(prefix, pointer)
    }

    /// Returns the function called `name`.
    ///
    /// # Safety
    /// `F` is the type of a function pointer that fits isl's headers (0.23 to 0.27).
    unsafe fn get<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller's.
        let symbol = unsafe { self.0.library.get::<F>(name.as_bytes()) };
        *symbol.unwrap_or_else(|_| panic!("libisl has no {name}"))
    }

    fn own(&self, prefix: &'static str, pointer: Pointer) -> Object {
        if pointer.is_null() {
            self.fail();
        }
        Object { isl: self.clone(), pointer, prefix }
    }

    /// Returns a text that isl has allocated; empty if there is none.
    ///
    /// # Safety
    /// `text` is null, or a string that ends with a zero byte and that no one else owns.
    unsafe fn text(&self, text: Pointer) -> String {
        if text.is_null() {
            self.fail();
            return String::new();
        }
        // SAFETY: the caller's; isl allocates it by malloc.
        unsafe {
            let copy = CStr::from_ptr(text.cast()).to_string_lossy().into_owned();
            free(text);
            copy
        }
    }
}

unsafe extern "C" {
    fn free(memory: Pointer);
}

impl Object {
    /// Returns a counted copy of the pointer, for a function that consumes its argument.
    fn share(&self) -> Pointer {
        if self.pointer.is_null() {
            return null_mut();
        }
        // SAFETY: the pointer is alive.
        unsafe {
            self.isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>(&format!("{}_copy", self.prefix))(
                self.pointer,
            )
        }
    }

    fn one(&self, name: &str, result: &'static str) -> Object {
        // SAFETY: callers name functions that take one object over and give one of the kind `result`.
        let pointer = unsafe { self.isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>(name)(self.share()) };
        self.isl.own(result, pointer)
    }

    fn two(&self, name: &str, other: &Object, result: &'static str) -> Object {
        // SAFETY: callers name functions that take two objects over and give one of the kind `result`.
        let pointer = unsafe {
            self.isl.get::<unsafe extern "C" fn(Pointer, Pointer) -> Pointer>(name)(
                self.share(),
                other.share(),
            )
        };
        self.isl.own(result, pointer)
    }

    fn is_empty(&self) -> bool {
        if self.pointer.is_null() {
            return true;
        }
        // SAFETY: isl_union_*_is_empty keeps what it is given.
        let answer = unsafe {
            self.isl.get::<unsafe extern "C" fn(Pointer) -> c_int>(&format!("{}_is_empty", self.prefix))(
                self.pointer,
            )
        };
        if answer < 0 {
            self.isl.fail();
        }
        answer != 0
    }

    fn show(&self) -> String {
        // SAFETY: isl_union_*_to_str keeps what it is given and gives a text of its own.
        unsafe {
            let text =
                self.isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>(&format!("{}_to_str", self.prefix))(
                    self.pointer,
                );
            self.isl.text(text)
        }
    }
}

const SET: &str = "isl_union_set";
const MAP: &str = "isl_union_map";
const ONE_SET: &str = "isl_set";
const PIECEWISE: &str = "isl_pw_aff";

impl Set {
    /// Returns the union of both sets.
    pub fn union(&self, other: &Set) -> Set {
        Set(self.0.two("isl_union_set_union", &other.0, SET))
    }

    /// Returns the intersection of both sets.
    pub fn intersect(&self, other: &Set) -> Set {
        Set(self.0.two("isl_union_set_intersect", &other.0, SET))
    }

    /// Returns the image of the set under the relation.
    pub fn apply(&self, map: &Map) -> Set {
        Set(self.0.two("isl_union_set_apply", &map.0, SET))
    }

    /// Simplifies to fewer, larger parts with the same content.
    pub fn coalesce(&self) -> Set {
        Set(self.0.one("isl_union_set_coalesce", SET))
    }

    /// Returns true if the set is empty for all parameters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the relation of each member to itself.
    pub fn identity(&self) -> Map {
        Map(self.0.one("isl_union_set_identity", MAP))
    }

    /// Returns the least and the greatest number of a set of single numbers, over all parameters; none where
    /// there is no bound, and for the empty set.
    pub fn range(&self) -> (Option<i64>, Option<i64>) {
        const PARAMETERS: c_uint = 1;
        if self.is_empty() {
            return (None, None);
        }
        let set = self.0.one("isl_set_from_union_set", ONE_SET);
        if set.pointer.is_null() {
            return (None, None);
        }
        let isl = &self.0.isl;
        // SAFETY: isl_set_dim keeps its argument, isl_set_project_out takes over a copy.
        let set = unsafe {
            let count = isl.get::<unsafe extern "C" fn(Pointer, c_uint) -> c_int>("isl_set_dim")(
                set.pointer,
                PARAMETERS,
            );
            isl.own(
                ONE_SET,
                isl.get::<unsafe extern "C" fn(Pointer, c_uint, c_uint, c_uint) -> Pointer>(
                    "isl_set_project_out",
                )(set.share(), PARAMETERS, 0, count.max(0) as c_uint),
            )
        };
        if set.pointer.is_null() {
            return (None, None);
        }
        let bound = |name: &str| {
            // SAFETY: the function `name` takes over a copy; isl_val_to_str keeps its argument, which is
            // freed once.
            let text = unsafe {
                let value = isl.get::<unsafe extern "C" fn(Pointer, c_int) -> Pointer>(name)(set.share(), 0);
                let text = isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>("isl_val_to_str")(value);
                isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>("isl_val_free")(value);
                isl.text(text)
            };
            text.parse().ok()
        };
        (bound("isl_set_dim_min_val"), bound("isl_set_dim_max_val"))
    }
}

impl Map {
    /// Returns the union of both relations.
    pub fn union(&self, other: &Map) -> Map {
        Map(self.0.two("isl_union_map_union", &other.0, MAP))
    }

    /// Returns the intersection of both relations.
    pub fn intersect(&self, other: &Map) -> Map {
        Map(self.0.two("isl_union_map_intersect", &other.0, MAP))
    }

    /// Returns the pairs whose first element is in `set`.
    pub fn restrict_domain(&self, set: &Set) -> Map {
        Map(self.0.two("isl_union_map_intersect_domain", &set.0, MAP))
    }

    /// Returns the pairs whose second element is in `set`.
    pub fn restrict_range(&self, set: &Set) -> Map {
        Map(self.0.two("isl_union_map_intersect_range", &set.0, MAP))
    }

    /// Returns the composition: this relation followed by `next`.
    pub fn then(&self, next: &Map) -> Map {
        Map(self.0.two("isl_union_map_apply_range", &next.0, MAP))
    }

    /// Pairs the other way round.
    pub fn reverse(&self) -> Map {
        Map(self.0.one("isl_union_map_reverse", MAP))
    }

    /// Returns the set of first elements of all pairs.
    pub fn domain(&self) -> Set {
        Set(self.0.one("isl_union_map_domain", SET))
    }

    /// Returns the set of second elements of all pairs.
    pub fn range(&self) -> Set {
        Set(self.0.one("isl_union_map_range", SET))
    }

    /// Returns the differences of the ends of pairs (`{ [x] -> [y] }` becomes `{ [y - x] }`).
    pub fn deltas(&self) -> Set {
        Set(self.0.one("isl_union_map_deltas", SET))
    }

    /// Returns for each first element the pair with the greatest second element.
    pub fn lexmax(&self) -> Map {
        Map(self.0.one("isl_union_map_lexmax", MAP))
    }

    /// Pairs (x, y) where this relation makes less of x than of y.
    pub fn before(&self) -> Map {
        Map(self.0.two("isl_union_map_lex_lt_union_map", &self.0, MAP))
    }

    /// Simplifies to fewer, larger parts with the same content.
    pub fn coalesce(&self) -> Map {
        Map(self.0.one("isl_union_map_coalesce", MAP))
    }

    /// Returns true if the relation is empty for all parameters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0.show())
    }
}

impl std::fmt::Display for Map {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0.show())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: all objects hold the context, so none is alive any more.
        if let Ok(free) = unsafe { self.library.get::<unsafe extern "C" fn(Pointer)>(b"isl_ctx_free") } {
            // SAFETY: as above; it is freed once.
            unsafe { free(self.context) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_is_exact_and_loops_are_c() {
        let Ok(isl) = Isl::load() else { panic!("libisl is missing: scripts/need.sh overlap") };
        let domain = isl.set("[N] -> { S[t, i] : 0 <= t < 5 and 1 <= i < N }");
        let schedule = isl.map("{ S[t, i] -> [t, i] }").restrict_domain(&domain);
        let writes = isl.map("{ S[t, i] -> a[i] }").restrict_domain(&domain);
        let reads = isl.map("{ S[t, i] -> a[i - 1]; S[t, i] -> a[i + 1] }").restrict_domain(&domain);
        let flow = isl.flow(&reads, &writes, &schedule);
        let position = isl.map("{ S[t, i] -> [i] }");
        assert_eq!(position.reverse().then(&flow).then(&position).deltas().range(), (Some(-1), Some(1)));
        let order = flow.domain().apply(&isl.map("{ S[t, i] -> a[i] }")).apply(&isl.map("{ a[x] -> a[x] }"));
        let loops = isl.loops(
            &order.identity().then(&isl.map("{ a[x] -> [x] }")),
            "[N] -> { : N > 4 }",
            &["x".into()],
        );
        assert_eq!(loops, "for (int x = 1; x < N; x += 1)\n  a(x);\n");
    }
}
