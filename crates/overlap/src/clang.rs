//! Syntax tree of a file in C, built with libclang.
//!
//! The module declares the few functions of libclang's C interface that it needs, and looks them up in the
//! library at run time. It copies all results into [`Node`]s at once, so that no other module holds objects
//! of libclang. Kinds of operators are known from version 17 on.
//!
//! # Safety
//! Functions are called with the types that clang-c/Index.h (interface 0.64, libclang 17 to 21) declares;
//! cursors are values that stay valid until their translation unit is disposed of, which is after the tree
//! has been copied; every CXString is disposed of after it was read.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_uint, c_void};
use std::ops::Range;
use std::ptr::null_mut;

use libloading::Library;

use crate::refusal::{SourcePosition, Unsupported};

/// Kind of a node; `Other` for all kinds that the translation does not distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function; its last child is the body.
    Function,
    /// A variable or parameter.
    Variable,
    /// `x` in an expression.
    Name,
    /// `s.x`, `p->x`.
    Member,
    /// `f(...)`; the first child is `f`.
    Call,
    /// A constant whole number.
    Integer,
    /// A floating constant.
    Floating,
    /// Brackets `(x)` and conversions: nodes with one child and its meaning.
    Transparent,
    /// Operators of one operand.
    Unary,
    /// `a[i]`.
    Subscript,
    /// Operators of two operands, and `=`.
    Binary,
    /// `+=` and its like.
    CompoundAssignment,
    /// `c ? x : y`.
    Conditional,
    /// `{ ... }`.
    Compound,
    /// `if`, `switch`.
    If,
    /// `for`; four children if nothing is left out.
    For,
    /// `break`, `continue`, `goto`, `return`.
    Jump,
    /// `while`, `do`.
    While,
    /// A declaration among statements.
    Declaration,
    /// The declaration of a type.
    Type,
    /// `;`.
    Empty,
    /// Anything else.
    Other,
}

/// Kind of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Whole numbers with a sign.
    Signed,
    /// Whole numbers without.
    Unsigned,
    /// Floating numbers.
    Real,
    /// Pointers.
    Pointer,
    /// Arrays.
    Array,
    /// Anything else.
    Other,
}

impl Shape {
    /// Returns true if the value is an array or a pointer.
    pub fn is_address(self) -> bool {
        matches!(self, Shape::Pointer | Shape::Array)
    }
}

/// Identity of a variable: the byte of the main file where it is declared (none for another file), and its
/// name.
pub type Variable = (Option<usize>, String);

/// Declaration of a name in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Byte of the main file at which the declaration begins; `None` for another file.
    pub offset: Option<usize>,
    /// Whether it is a variable.
    pub is_variable: bool,
    /// Whether it is declared `volatile`.
    pub is_volatile: bool,
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// Kind of the node.
    pub kind: Kind,
    /// Name of the node, empty if it has none.
    pub name: String,
    /// Operator as in the source (`+`, `++`), for operators. Prefix and postfix are not distinguished.
    pub operator: &'static str,
    /// Kind of the value, for expressions and variables.
    pub shape: Shape,
    /// The type, as the source spells it, and without typedefs.
    pub types: [String; 2],
    /// The value of a constant.
    pub value: Option<i64>,
    /// Declaration that the name refers to, for names.
    pub declaration: Option<Declaration>,
    /// Position of the first character, after expansion of macros.
    pub place: SourcePosition,
    /// Whether it stands in the main file, and not in one that this includes.
    pub is_main: bool,
    /// Bytes of the node in the main file; empty for nodes of another file.
    pub span: Range<usize>,
    /// Byte at which the name stands. Uses of a variable have the byte of its declaration.
    pub name_at: usize,
    /// Parts of the node, in the order of the text.
    pub children: Vec<Node>,
}

impl Node {
    /// Returns the node without enclosing brackets and conversions.
    pub fn bare(&self) -> &Node {
        match (self.kind, self.children.last()) {
            (Kind::Transparent, Some(inner)) => inner.bare(),
            _ => self,
        }
    }

    /// Returns the variable that this name or declaration denotes.
    pub fn variable(&self) -> Variable {
        match (self.kind, &self.declaration) {
            (Kind::Variable, _) => (self.is_main.then_some(self.name_at), self.name.clone()),
            (_, Some(declared)) => (declared.offset, self.name.clone()),
            _ => (None, self.name.clone()),
        }
    }

    /// Calls `visit` for this node and all below it, from outside in, as long as it returns true for their
    /// parents.
    pub fn walk<'n>(&'n self, visit: &mut impl FnMut(&'n Node) -> bool) {
        if visit(self) {
            self.children.iter().for_each(|child| child.walk(visit));
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Cursor {
    kind: c_int,
    extra: c_int,
    data: [*const c_void; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Type {
    kind: c_int,
    data: [*mut c_void; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Text {
    data: *const c_void,
    flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    pointers: [*const c_void; 2],
    number: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Extent {
    pointers: [*const c_void; 2],
    begin: c_uint,
    end: c_uint,
}

type Visitor = extern "C" fn(Cursor, Cursor, *mut c_void) -> c_int;

/// The loaded library libclang.
pub struct Clang {
    library: Library,
    version: String,
    /// The main file of the unit being read.
    main: Cell<*mut c_void>,
}

/// Returns names of files that may be libclang, the newest version first.
fn candidates() -> Vec<String> {
    let versions = (17..=30).rev();
    let named = versions.flat_map(|version| {
        [format!("libclang-{version}.so.1"), format!("/usr/lib/llvm-{version}/lib/libclang.so.1")]
    });
    let asked = std::env::var("LIBCLANG_PATH").ok().into_iter();
    asked.chain(named).chain(["libclang.so.1".to_string(), "libclang.so".to_string()]).collect()
}

impl Clang {
    /// Loads the newest libclang, or that named by LIBCLANG_PATH.
    pub fn load() -> Result<Clang, Unsupported> {
        for name in candidates() {
            // SAFETY: libclang's initialisers do nothing but set up its own state.
            let Ok(library) = (unsafe { Library::new(&name) }) else { continue };
            // SAFETY: the symbol is only looked up.
            let new_enough =
                unsafe { library.get::<*const c_void>(b"clang_getCursorBinaryOperatorKind\0") }.is_ok();
            if new_enough {
                let mut clang = Clang { library, version: String::new(), main: Cell::new(null_mut()) };
                // SAFETY: clang_getClangVersion takes nothing.
                clang.version = clang
                    .text(unsafe { clang.get::<unsafe extern "C" fn() -> Text>("clang_getClangVersion")() });
                return Ok(clang);
            }
        }
        Err(Unsupported::general(
            "libclang 17 or later was not found; install it (Debian, Ubuntu: apt-get install libclang1-19), or set LIBCLANG_PATH to the library",
        ))
    }

    /// Returns the version that libclang reports.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the declarations of the main file `path`, compiled with `arguments`.
    pub fn parse(&self, path: &str, arguments: &[String]) -> Result<Vec<Node>, Unsupported> {
        let c_text = |text: &str| {
            CString::new(text).map_err(|_| Unsupported::general(format!("{text:?} holds a zero byte")))
        };
        let owned: Vec<CString> = arguments.iter().map(|text| c_text(text)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = owned.iter().map(|text| text.as_ptr()).collect();
        let path = c_text(path)?;
        type Parse = unsafe extern "C" fn(
            *mut c_void,
            *const c_char,
            *const *const c_char,
            c_int,
            *mut c_void,
            c_uint,
            c_uint,
        ) -> *mut c_void;
        // SAFETY: see the header; the arguments outlive the call, and index and unit are disposed of once,
        // after the tree has been copied.
        unsafe {
            let index =
                self.get::<unsafe extern "C" fn(c_int, c_int) -> *mut c_void>("clang_createIndex")(0, 0);
            let parse = self.get::<Parse>("clang_parseTranslationUnit");
            let unit =
                parse(index, path.as_ptr(), pointers.as_ptr(), pointers.len() as c_int, null_mut(), 0, 0);
            let result = if unit.is_null() {
                Err(Unsupported::general("libclang cannot read this file"))
            } else {
                let main = self
                    .get::<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>("clang_getFile");
                self.main.set(main(unit, path.as_ptr()));
                self.complaints(unit).map(|()| {
                    let root = self
                        .get::<unsafe extern "C" fn(*mut c_void) -> Cursor>("clang_getTranslationUnitCursor");
                    let is_main =
                        self.get::<unsafe extern "C" fn(Location) -> c_int>("clang_Location_isFromMainFile");
                    let own =
                        self.children(root(unit)).into_iter().filter(|c| is_main(self.location(*c)) != 0);
                    own.map(|c| self.node(c)).collect()
                })
            };
            if !unit.is_null() {
                self.get::<unsafe extern "C" fn(*mut c_void)>("clang_disposeTranslationUnit")(unit);
            }
            self.get::<unsafe extern "C" fn(*mut c_void)>("clang_disposeIndex")(index);
            result
        }
    }

    /// Returns the function called `name`. It must have the type `F`.
    ///
    /// # Safety
    /// `F` is the type of a function pointer that fits clang-c/Index.h.
    unsafe fn get<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller's; the pointer is used while the library is loaded, as nothing that outlives
        // `self` keeps it.
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        *symbol.unwrap_or_else(|_| panic!("libclang has no {name}"))
    }

    /// Returns the first error of the compiler.
    fn complaints(&self, unit: *mut c_void) -> Result<(), Unsupported> {
        // SAFETY: `unit` is alive; each diagnostic is disposed of after its last use.
        unsafe {
            let count =
                self.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>("clang_getNumDiagnostics")(unit);
            for at in 0..count {
                let one = self
                    .get::<unsafe extern "C" fn(*mut c_void, c_uint) -> *mut c_void>("clang_getDiagnostic")(
                    unit, at,
                );
                let severity = self
                    .get::<unsafe extern "C" fn(*mut c_void) -> c_int>("clang_getDiagnosticSeverity")(
                    one
                );
                let words = self.text(self
                    .get::<unsafe extern "C" fn(*mut c_void) -> Text>("clang_getDiagnosticSpelling")(
                    one
                ));
                let location = self
                    .get::<unsafe extern "C" fn(*mut c_void) -> Location>("clang_getDiagnosticLocation")(
                    one
                );
                self.get::<unsafe extern "C" fn(*mut c_void)>("clang_disposeDiagnostic")(one);
                // Errors, including fatal ones that stop the compiler.
                if severity >= 3 {
                    let (place, _, is_main) = self.expansion(location);
                    let there = format!("in line {} of a file that this one includes: ", place.line);
                    let there = if is_main { "" } else { &there };
                    return Err(Unsupported {
                        place: is_main.then_some(place),
                        message: format!("the compiler says: {there}{words}; mend the program first"),
                    });
                }
            }
        }
        Ok(())
    }

    fn text(&self, text: Text) -> String {
        // SAFETY: the string is read before it is disposed of, once.
        unsafe {
            let letters = self.get::<unsafe extern "C" fn(Text) -> *const c_char>("clang_getCString")(text);
            let copy = if letters.is_null() {
                String::new()
            } else {
                CStr::from_ptr(letters).to_string_lossy().into_owned()
            };
            self.get::<unsafe extern "C" fn(Text)>("clang_disposeString")(text);
            copy
        }
    }

    fn children(&self, parent: Cursor) -> Vec<Cursor> {
        extern "C" fn visit(cursor: Cursor, _: Cursor, list: *mut c_void) -> c_int {
            // SAFETY: `list` is the vector that `children` passes, borrowed by nobody else during the visit.
            unsafe { (*list.cast::<Vec<Cursor>>()).push(cursor) };
            1 // continue, without going down
        }
        let mut list: Vec<Cursor> = Vec::new();
        // SAFETY: the visitor is called only before this call returns.
        unsafe {
            let walk = self
                .get::<unsafe extern "C" fn(Cursor, Visitor, *mut c_void) -> c_uint>("clang_visitChildren");
            walk(parent, visit, (&raw mut list).cast());
        }
        list
    }

    fn location(&self, cursor: Cursor) -> Location {
        // SAFETY: see the header.
        unsafe { self.get::<unsafe extern "C" fn(Cursor) -> Location>("clang_getCursorLocation")(cursor) }
    }

    /// Returns position and byte offset of a location after macro expansion, and whether it is in the main
    /// file.
    fn expansion(&self, location: Location) -> (SourcePosition, usize, bool) {
        type Find = unsafe extern "C" fn(Location, *mut *mut c_void, *mut c_uint, *mut c_uint, *mut c_uint);
        type Equal = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
        let (mut file, mut line, mut column, mut offset) = (null_mut(), 0, 0, 0);
        // SAFETY: the four outputs are written before the call returns; both files are of the unit being
        // read, or null.
        let is_main = unsafe {
            self.get::<Find>("clang_getExpansionLocation")(
                location,
                &mut file,
                &mut line,
                &mut column,
                &mut offset,
            );
            self.get::<Equal>("clang_File_isEqual")(file, self.main.get()) != 0
        };
        (SourcePosition { line: line as usize, column: column as usize }, offset as usize, is_main)
    }

    fn node(&self, cursor: Cursor) -> Node {
        // SAFETY: see the header.
        let (extent, name, operator) = unsafe {
            let extent = self.get::<unsafe extern "C" fn(Cursor) -> Extent>("clang_getCursorExtent")(cursor);
            let name = self
                .text(self.get::<unsafe extern "C" fn(Cursor) -> Text>("clang_getCursorSpelling")(cursor));
            (extent, name, self.operator(cursor))
        };
        // SAFETY: see the header.
        let (begin, end) = unsafe {
            (
                self.get::<unsafe extern "C" fn(Extent) -> Location>("clang_getRangeStart")(extent),
                self.get::<unsafe extern "C" fn(Extent) -> Location>("clang_getRangeEnd")(extent),
            )
        };
        let ((place, from, is_main), (_, to, ends_there)) = (self.expansion(begin), self.expansion(end));
        let span = if is_main && ends_there { from..to.max(from) } else { 0..0 };
        let name_at = self.expansion(self.location(cursor)).1;
        let kind = kind_of(cursor.kind);
        let declaration = if kind == Kind::Name { self.declaration(cursor) } else { None };
        let constant =
            kind == Kind::Integer || declaration.as_ref().is_some_and(|declared| !declared.is_variable);
        let (shape, types) = self.type_of(cursor);
        let value = if constant && shape != Shape::Other { self.value(cursor) } else { None };
        let children = self.children(cursor).into_iter().map(|child| self.node(child)).collect();
        Node {
            kind,
            name,
            operator,
            shape,
            types,
            value,
            declaration,
            place,
            is_main: is_main && ends_there,
            span,
            name_at,
            children,
        }
    }

    fn operator(&self, cursor: Cursor) -> &'static str {
        const BINARY: [&str; 34] = [
            "", ".*", "->*", "*", "/", "%", "+", "-", "<<", ">>", "<=>", "<", ">", "<=", ">=", "==", "!=",
            "&", "^", "|", "&&", "||", "=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=",
            ",",
        ];
        const UNARY: [&str; 11] = ["", "++", "--", "++", "--", "&", "*", "+", "-", "~", "!"];
        let (name, table): (_, &[&'static str]) = match kind_of(cursor.kind) {
            Kind::Binary | Kind::CompoundAssignment => ("clang_getCursorBinaryOperatorKind", &BINARY),
            Kind::Unary => ("clang_getCursorUnaryOperatorKind", &UNARY),
            _ => return "",
        };
        // SAFETY: see the header.
        let number = unsafe { self.get::<unsafe extern "C" fn(Cursor) -> c_int>(name)(cursor) };
        table.get(number as usize).copied().unwrap_or("")
    }

    fn type_of(&self, cursor: Cursor) -> (Shape, [String; 2]) {
        // SAFETY: see the header.
        unsafe {
            let own = self.get::<unsafe extern "C" fn(Cursor) -> Type>("clang_getCursorType")(cursor);
            let canonical = self.get::<unsafe extern "C" fn(Type) -> Type>("clang_getCanonicalType")(own);
            let spell = self.get::<unsafe extern "C" fn(Type) -> Text>("clang_getTypeSpelling");
            (shape_of(canonical.kind), [self.text(spell(own)), self.text(spell(canonical))])
        }
    }

    fn declaration(&self, cursor: Cursor) -> Option<Declaration> {
        // SAFETY: see the header; a cursor without a reference gives a null cursor, of an invalid kind.
        unsafe {
            let target =
                self.get::<unsafe extern "C" fn(Cursor) -> Cursor>("clang_getCursorReferenced")(cursor);
            let kind = kind_of(target.kind);
            let is_main = self
                .get::<unsafe extern "C" fn(Location) -> c_int>("clang_Location_isFromMainFile")(
                self.location(target),
            ) != 0;
            let offset = is_main.then(|| self.expansion(self.location(target)).1);
            let own = self.get::<unsafe extern "C" fn(Cursor) -> Type>("clang_getCursorType")(target);
            let is_volatile =
                self.get::<unsafe extern "C" fn(Type) -> c_uint>("clang_isVolatileQualifiedType")(own) != 0;
            Some(Declaration { offset, is_variable: kind == Kind::Variable, is_volatile })
        }
    }

    fn value(&self, cursor: Cursor) -> Option<i64> {
        // SAFETY: see the header; the result is disposed of after it was read.
        unsafe {
            let result =
                self.get::<unsafe extern "C" fn(Cursor) -> *mut c_void>("clang_Cursor_Evaluate")(cursor);
            if result.is_null() {
                return None;
            }
            let is_integer =
                self.get::<unsafe extern "C" fn(*const c_void) -> c_int>("clang_EvalResult_getKind")(result)
                    == 1;
            let value = self
                .get::<unsafe extern "C" fn(*const c_void) -> c_longlong>("clang_EvalResult_getAsLongLong")(
                result,
            );
            self.get::<unsafe extern "C" fn(*const c_void)>("clang_EvalResult_dispose")(result);
            is_integer.then_some(value)
        }
    }
}

/// Translates a CXCursorKind of libclang.
fn kind_of(number: c_int) -> Kind {
    match number {
        2 | 3 | 5 | 20 => Kind::Type,
        8 => Kind::Function,
        9 | 10 => Kind::Variable,
        100 | 111 | 117 => Kind::Transparent,
        101 => Kind::Name,
        102 => Kind::Member,
        103 => Kind::Call,
        106 => Kind::Integer,
        107 => Kind::Floating,
        112 => Kind::Unary,
        113 => Kind::Subscript,
        114 => Kind::Binary,
        115 => Kind::CompoundAssignment,
        116 => Kind::Conditional,
        202 => Kind::Compound,
        205 | 206 => Kind::If,
        210..=214 => Kind::Jump,
        207 | 208 => Kind::While,
        209 => Kind::For,
        230 => Kind::Empty,
        231 => Kind::Declaration,
        _ => Kind::Other,
    }
}

/// Translates a CXTypeKind of libclang.
fn shape_of(number: c_int) -> Shape {
    match number {
        13..=20 | 106 => Shape::Signed,
        3..=12 => Shape::Unsigned,
        21..=23 => Shape::Real,
        101 => Shape::Pointer,
        112 | 114 | 115 => Shape::Array,
        _ => Shape::Other,
    }
}
