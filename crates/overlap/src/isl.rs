//! The integer set library: unions of sets and relations of integer points, bounded by affine constraints
//! with parameters.
//!
//! They are written and read as isl's text (`[N] -> { S[i] -> a[i + 1] : 0 <= i < N }`), and combined by the
//! few functions that are declared here and looked up in the library when the program runs. isl is part of
//! what gcc needs, so wherever gcc is, libisl is.
//!
//! # Safety
//! Functions of isl that take an object over (`__isl_take`) are given a copy (isl_*_copy adds to a count of
//! uses); what they give is owned by one [`Object`], freed once by the function of its type. A null pointer
//! (an error, which isl has printed) is turned into a panic at once, since the texts are ours. All objects
//! hold the context, which so outlives them. Nothing is shared between threads (`Rc`).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::rc::Rc;

use libloading::Library;

use crate::refusal::Refusal;

type Pointer = *mut c_void;

struct Context {
    library: Library,
    context: Pointer,
}

/// isl, loaded.
#[derive(Clone)]
pub struct Isl(Rc<Context>);

struct Object {
    isl: Isl,
    pointer: Pointer,
    /// `isl_union_set`, `isl_union_map`: what its functions begin with.
    prefix: &'static str,
}

impl Clone for Object {
    fn clone(&self) -> Object {
        Object { isl: self.isl.clone(), pointer: self.share(), prefix: self.prefix }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
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
    /// Loads libisl.
    pub fn load() -> Result<Isl, Refusal> {
        for name in ["libisl.so.23", "libisl.so.22", "libisl.so"] {
            // SAFETY: libisl has no initialisers.
            let Ok(library) = (unsafe { Library::new(name) }) else { continue };
            // SAFETY: the type of isl_ctx_alloc, which is looked up and called while the library is loaded.
            let context = unsafe {
                library.get::<unsafe extern "C" fn() -> Pointer>(b"isl_ctx_alloc").map(|make| make())
            };
            let Ok(context) = context else { continue };
            return Ok(Isl(Rc::new(Context { library, context })));
        }
        Err(Refusal::general("libisl was not found; install it (Debian, Ubuntu: apt-get install libisl23)"))
    }

    /// The set that `text` says.
    pub fn set(&self, text: &str) -> Set {
        Set(self.read("isl_union_set", text))
    }

    /// The relation that `text` says.
    pub fn map(&self, text: &str) -> Map {
        Map(self.read("isl_union_map", text))
    }

    /// Who reads what `writes` has written, exactly: the last instance by `schedule` that wrote the place
    /// before each instance of `reads`.
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

    /// Loops in C over the points of `order` (a relation from what is visited to when), under the constraints
    /// `context` of the parameters, with the `iterators`. What is visited stands there as a call: `a(x, y);`.
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
            assert!(!node.is_null(), "isl makes loops of a bounded set");
            let text = self.text(self.get::<One>("isl_ast_node_to_C_str")(node));
            self.get::<One>("isl_ast_node_free")(node);
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
        assert!(!pointer.is_null(), "isl does not read {text}");
        Object { isl: self.clone(), pointer, prefix }
    }

    /// The function called `name`.
    ///
    /// # Safety
    /// `F` is the type of a function pointer that fits isl's headers (0.23 to 0.27).
    unsafe fn get<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller's.
        let symbol = unsafe { self.0.library.get::<F>(name.as_bytes()) };
        *symbol.unwrap_or_else(|_| panic!("libisl has no {name}"))
    }

    fn own(&self, prefix: &'static str, pointer: Pointer) -> Object {
        assert!(!pointer.is_null(), "isl failed, see above");
        Object { isl: self.clone(), pointer, prefix }
    }

    /// A text that isl has allocated.
    ///
    /// # Safety
    /// `text` ends with a zero byte and is nobody else's.
    unsafe fn text(&self, text: Pointer) -> String {
        assert!(!text.is_null(), "isl failed, see above");
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
    /// A further use of what this is, for a function that takes it over.
    fn share(&self) -> Pointer {
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
        // SAFETY: isl_union_*_is_empty keeps what it is given.
        let answer = unsafe {
            self.isl.get::<unsafe extern "C" fn(Pointer) -> c_int>(&format!("{}_is_empty", self.prefix))(
                self.pointer,
            )
        };
        assert!(answer >= 0, "isl failed, see above");
        answer == 1
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

impl Set {
    /// What is in either.
    pub fn union(&self, other: &Set) -> Set {
        Set(self.0.two("isl_union_set_union", &other.0, SET))
    }

    /// What is in both.
    pub fn intersect(&self, other: &Set) -> Set {
        Set(self.0.two("isl_union_set_intersect", &other.0, SET))
    }

    /// What the relation makes of its members.
    pub fn apply(&self, map: &Map) -> Set {
        Set(self.0.two("isl_union_set_apply", &map.0, SET))
    }

    /// With fewer, larger parts.
    pub fn coalesce(&self) -> Set {
        Set(self.0.one("isl_union_set_coalesce", SET))
    }

    /// Whether nothing is in it, whatever the parameters are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each member related to itself.
    pub fn identity(&self) -> Map {
        Map(self.0.one("isl_union_set_identity", MAP))
    }

    /// The least and the greatest number of a set of single numbers, over all parameters; none where there is
    /// no bound.
    ///
    /// # Panics
    /// If the set is empty, or not one of single numbers.
    pub fn range(&self) -> (Option<i64>, Option<i64>) {
        const PARAMETERS: c_uint = 1;
        let bound = |name: &str| {
            // SAFETY: isl_set_n_param keeps its argument; the others take over results that nobody else
            // holds.
            let text = unsafe {
                let set =
                    self.0.isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>("isl_set_from_union_set")(
                        self.0.share(),
                    );
                assert!(!set.is_null(), "a set of one space");
                let count = self.0.isl.get::<unsafe extern "C" fn(Pointer, c_uint) -> c_int>("isl_set_dim")(
                    set, PARAMETERS,
                );
                let project =
                    self.0.isl.get::<unsafe extern "C" fn(Pointer, c_uint, c_uint, c_uint) -> Pointer>(
                        "isl_set_project_out",
                    );
                let set = project(set, PARAMETERS, 0, count as c_uint);
                let value = self.0.isl.get::<unsafe extern "C" fn(Pointer, c_int) -> Pointer>(name)(set, 0);
                let text =
                    self.0.isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>("isl_val_to_str")(value);
                self.0.isl.get::<unsafe extern "C" fn(Pointer) -> Pointer>("isl_val_free")(value);
                self.0.isl.text(text)
            };
            text.parse().ok()
        };
        (bound("isl_set_dim_min_val"), bound("isl_set_dim_max_val"))
    }
}

impl Map {
    /// Pairs in either.
    pub fn union(&self, other: &Map) -> Map {
        Map(self.0.two("isl_union_map_union", &other.0, MAP))
    }

    /// Pairs in both.
    pub fn intersect(&self, other: &Map) -> Map {
        Map(self.0.two("isl_union_map_intersect", &other.0, MAP))
    }

    /// Pairs that begin in `set`.
    pub fn from(&self, set: &Set) -> Map {
        Map(self.0.two("isl_union_map_intersect_domain", &set.0, MAP))
    }

    /// Pairs that end in `set`.
    pub fn to(&self, set: &Set) -> Map {
        Map(self.0.two("isl_union_map_intersect_range", &set.0, MAP))
    }

    /// This relation and then `next`.
    pub fn then(&self, next: &Map) -> Map {
        Map(self.0.two("isl_union_map_apply_range", &next.0, MAP))
    }

    /// Pairs the other way round.
    pub fn reverse(&self) -> Map {
        Map(self.0.one("isl_union_map_reverse", MAP))
    }

    /// Where pairs begin.
    pub fn domain(&self) -> Set {
        Set(self.0.one("isl_union_map_domain", SET))
    }

    /// Where pairs end.
    pub fn range(&self) -> Set {
        Set(self.0.one("isl_union_map_range", SET))
    }

    /// The differences of the ends of pairs (`{ [x] -> [y] }` becomes `{ [y - x] }`).
    pub fn deltas(&self) -> Set {
        Set(self.0.one("isl_union_map_deltas", SET))
    }

    /// Of the pairs that begin at one place, those with the greatest end.
    pub fn lexmax(&self) -> Map {
        Map(self.0.one("isl_union_map_lexmax", MAP))
    }

    /// Pairs (x, y) where this relation makes less of x than of y.
    pub fn before(&self) -> Map {
        Map(self.0.two("isl_union_map_lex_lt_union_map", &self.0, MAP))
    }

    /// With fewer, larger parts.
    pub fn coalesce(&self) -> Map {
        Map(self.0.one("isl_union_map_coalesce", MAP))
    }

    /// Whether there are no pairs, whatever the parameters are.
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
        let schedule = isl.map("{ S[t, i] -> [t, i] }").from(&domain);
        let writes = isl.map("{ S[t, i] -> a[i] }").from(&domain);
        let reads = isl.map("{ S[t, i] -> a[i - 1]; S[t, i] -> a[i + 1] }").from(&domain);
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
