//! Random programs, most of which are almost valid. The translation must never panic, and every refusal of a
//! region must have a position. `OVERLAP_FUZZ=N` tries N programs instead of a few; `OVERLAP_FUZZ_SEED` sets
//! the first seed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tutti_overlap::Translator;
use tutti_overlap::generate::{Options, Scheme};

/// Numbers by a shift register.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count
    }

    fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

const NAMES: &[&str] = &[
    "i",
    "j",
    "k",
    "rat",
    "exists",
    "not",
    "NaN",
    "infty",
    "mod",
    "floor",
    "min",
    "and",
    "L0",
    "N0",
    "A0",
    "S0",
    "P0",
    "t0",
    "border",
    "x",
    "größe",
    "数",
    "é",
    "implies",
    "int_",
    "_",
    "overlap_min",
    "true_",
    "lexmax",
    "ceild",
];
const TYPES: &[&str] = &[
    "int",
    "long",
    "unsigned",
    "size_t",
    "short",
    "char",
    "unsigned char",
    "signed char",
    "_Bool",
    "const int",
    "unsigned long long",
    "enum color",
    "__int128",
    "double",
    "volatile int",
    "number",
];
const ELEMENTS: &[&str] = &[
    "double",
    "float",
    "int",
    "long double",
    "_Complex double",
    "struct pair",
    "unsigned char",
    "const double",
    "real",
    "volatile double",
    "_Atomic int",
];
const SHAPES: &[&str] = &[
    "N[60]",
    "N[60][60]",
    "(*N)[60]",
    "*N",
    "**N",
    "*N[60]",
    "(*N)[60][60]",
    "N[60][60][60]",
    "*restrict N",
];

/// A random program.
struct Fuzz {
    draw: Draw,
    /// Loop variables in scope, and sizes.
    counters: Vec<String>,
    sizes: Vec<String>,
    arrays: Vec<(String, usize)>,
    /// Percentage of places where something stands that is not accepted.
    wildness: usize,
}

impl Fuzz {
    /// Returns true in `percent` of 100 places of a wild program.
    fn is_wild(&mut self, percent: usize) -> bool {
        self.draw.below(10_000) < percent * self.wildness
    }

    fn name(&mut self, used: &mut Vec<String>) -> String {
        loop {
            let name = self.draw.one(NAMES).to_string();
            let name = if self.draw.is(20) { format!("{name}{}", self.draw.below(9)) } else { name };
            if !used.contains(&name) {
                used.push(name.clone());
                return name;
            }
        }
    }

    fn variable(&mut self) -> String {
        let all = [self.counters.as_slice(), self.sizes.as_slice()].concat();
        all[self.draw.below(all.len())].clone()
    }

    fn affine(&mut self, depth: usize) -> String {
        match self.draw.below(if depth == 0 { 4 } else { 10 }) {
            8 if !self.is_wild(100) => format!("{} + {}", self.variable(), self.draw.below(3)),
            0 => self.draw.below(6).to_string(),
            1..=3 => self.variable(),
            4 | 5 => format!("{} + {}", self.affine(depth - 1), self.affine(depth - 1)),
            6 => format!("{} - {}", self.affine(depth - 1), self.affine(0)),
            7 => format!("({})", self.affine(depth - 1)),
            8 => match self.draw.below(8) {
                0 => format!("({})({})", self.draw.one(TYPES), self.affine(depth - 1)),
                1 => format!("-{}", self.affine(0)),
                2 => format!("{} * {}", self.affine(0), self.affine(0)),
                3 => format!("{} / 2", self.affine(0)),
                4 => self
                    .draw
                    .one(&[
                        "9223372036854775807",
                        "4294967296u * 1048576u",
                        "0x7fffffff",
                        "SIZE",
                        "RED",
                        "'a'",
                    ])
                    .into(),
                5 => format!("{}u", self.draw.below(9)),
                6 => "sizeof(int)".into(),
                _ => format!("{} * {}", 1 + self.draw.below(3), self.variable()),
            },
            _ => format!("{} {} {}", self.variable(), self.draw.one(&["+", "-"]), self.draw.below(4)),
        }
    }

    fn element(&mut self) -> String {
        let (name, dimensions) = self.arrays[self.draw.below(self.arrays.len())].clone();
        let count = if self.is_wild(3) { dimensions + 1 } else { dimensions };
        let mut text = name;
        for at in 0..count {
            let subscript = if !self.is_wild(20) && self.counters.len() > 1 {
                let counter = self.counters[(1 + at).min(self.counters.len() - 1)].clone();
                match self.draw.below(4) {
                    0 => format!("{counter} + {}", self.draw.below(3)),
                    1 => format!("{counter} - {}", self.draw.below(3)),
                    _ => counter,
                }
            } else {
                self.affine(1)
            };
            write!(text, "[{subscript}]").expect("text can be written");
        }
        text
    }

    fn value(&mut self, depth: usize) -> String {
        match self.draw.below(if depth == 0 { 3 } else { 12 }) {
            11 if !self.is_wild(100) => format!("factor * {}", self.element()),
            0 => "0.5".into(),
            1 | 2 => self.element(),
            3..=6 => format!(
                "{} {} {}",
                self.value(depth - 1),
                self.draw.one(&["+", "-", "*", "/"]),
                self.value(depth - 1)
            ),
            7 => format!("({})", self.value(depth - 1)),
            8 => self.variable(),
            9 => format!("fabs({})", self.value(depth - 1)),
            10 => format!("{} ? {} : {}", self.variable(), self.value(depth - 1), self.value(depth - 1)),
            _ => match self.draw.below(8) {
                0 => "noise(1)".into(),
                1 => format!("&{}", self.element()),
                2 => "factor".into(),
                3 => "pair.x".into(),
                4 => format!("{}++", self.element()),
                5 => format!("({}) {}", self.draw.one(TYPES), self.value(depth - 1)),
                6 => "RED".into(),
                _ => "*&factor".into(),
            },
        }
    }

    /// Returns an assignment to the element at the loop variables, as it is accepted.
    fn assignment(&mut self) -> String {
        let (name, dimensions) = self.arrays[self.draw.below(self.arrays.len())].clone();
        let counters = self.counters.get(1..).filter(|inner| !inner.is_empty()).unwrap_or(&self.counters);
        let subscripts: String =
            (0..dimensions).map(|at| format!("[{}]", counters[at.min(counters.len() - 1)])).collect();
        format!("{name}{subscripts} = {};", self.value(2))
    }

    fn statement(&mut self, depth: usize) -> String {
        if !self.is_wild(60) {
            return self.assignment();
        }
        match self.draw.below(20) {
            0 => format!("double s = {}; {} = s;", self.value(1), self.element()),
            1 => format!("{} += {};", self.element(), self.value(1)),
            2 => ";".into(),
            3 if depth < 4 => format!("{{ {} {} }}", self.statement(depth + 1), self.statement(depth + 1)),
            4 if depth < 4 => self.loop_over(depth + 1),
            5 => match self.draw.below(12) {
                0 => "break;".into(),
                1 => format!("if ({}) {}", self.variable(), self.statement(4)),
                2 => "\n#include \"part.h\"\n".into(),
                3 => format!("static double s; s = {};", self.value(0)),
                4 => "factor = 2;".into(),
                5 => format!("{}++;", self.element()),
                6 => "\n#define K 3\n;".into(),
                7 => "/* größe\u{a0} */ ;".into(),
                8 => "BOTH".into(),
                9 => "return 1;".into(),
                10 => format!("int q = {}; {} = q;", self.affine(1), self.element()),
                _ => "\n#pragma scop\n".into(),
            },
            _ => format!("{} = {};", self.element(), self.value(2)),
        }
    }

    fn loop_over(&mut self, depth: usize) -> String {
        let shared = self.draw.is(25);
        let mut used = if self.is_wild(20) { vec![] } else { self.counters.clone() };
        used.extend(self.arrays.iter().map(|(name, _)| name.clone()).chain(self.sizes.clone()));
        let name = match shared {
            true => ["si", "sj", "sk", "sl", "sm"][depth.min(5) - 1].to_string(),
            false => self.name(&mut used),
        };
        let declared = match (shared, self.is_wild(20)) {
            (true, _) => "",
            (_, true) => &format!("{} ", self.draw.one(TYPES)),
            _ => self.draw.one(&["int ", "int ", "long ", "size_t ", "unsigned ", "short "]),
        };
        let low = if !self.is_wild(30) { self.draw.below(4).to_string() } else { self.affine(2) };
        let high = if !self.is_wild(40) {
            format!("{} - {}", self.sizes[0], self.draw.below(4))
        } else {
            self.affine(2)
        };
        let sign = if !self.is_wild(20) { "<" } else { self.draw.one(&["<=", "<=", ">", "!="]) };
        let step = if !self.is_wild(10) {
            format!("{name}++")
        } else {
            self.draw.one(&["si += 2", "", "sj--"]).to_string()
        };
        self.counters.push(name.clone());
        let body = if self.draw.is(60) && depth < 4 && self.counters.len() < 4 {
            self.loop_over(depth + 1)
        } else {
            self.statement(depth + 1)
        };
        self.counters.pop();
        let body = if self.draw.is(50) { format!("{{ {body} }}") } else { body };
        format!("for ({declared}{name} = {low}; {name} {sign} {high}; {step}) {body}")
    }

    fn program(mut self) -> String {
        let mut used = vec!["factor".to_string()];
        let mut declared = String::new();
        for _ in 0..1 + self.draw.below(3) {
            let name = self.name(&mut used);
            let kind = if !self.is_wild(40) {
                self.draw.one(&["int", "long", "size_t", "short"])
            } else {
                self.draw.one(TYPES)
            };
            writeln!(declared, "{kind} {name};").expect("text can be written");
            self.sizes.push(name);
        }
        for _ in 0..1 + self.draw.below(3) {
            let name = self.name(&mut used);
            let element = if !self.is_wild(40) {
                self.draw.one(&["double", "float", "int"])
            } else {
                self.draw.one(ELEMENTS)
            };
            let shape = if self.is_wild(30) { self.draw.one(SHAPES) } else { self.draw.one(&SHAPES[..4]) };
            let dimensions = shape.matches('[').count() + shape.matches('*').count();
            writeln!(declared, "{element} {};", shape.replace('N', &name)).expect("text can be written");
            self.arrays.push((name, dimensions));
        }
        let time = self.draw.one(&["t", "t", "time_of", "st"]).to_string();
        let kind = if time == "st" { "" } else { "int " };
        let end = if !self.is_wild(20) { self.sizes[0].clone() } else { self.affine(1) };
        self.counters.push(time.clone());
        let body: Vec<String> = (0..1 + self.draw.below(2)).map(|_| self.loop_over(1)).collect();
        let [open, close] = match self.draw.below(3) {
            0 => ["#pragma tutti overlap\n", ""],
            _ => ["#pragma scop\n", "#pragma endscop\n"],
        };
        let place = match self.draw.is(50) {
            true => ("", declared.as_str()),
            false => (declared.as_str(), ""),
        };
        let inner = self.draw.one(&["", "", "enum { LOCAL = 3 };", "typedef double own;", "if (st)"]);
        format!(
            "typedef unsigned long size_t; typedef double real; typedef short number; enum color {{ RED, GREEN }};\n\
             struct pair {{ double x; }} pair; double noise(double), fabs(double), factor;\n#define SIZE 40\n\
             #define BOTH factor = 1;\n{}\nint main(void)\n{{\n{}\n\
             int si, sj, sk, sl, sm, st; {inner}\n{open}\
             for ({kind}{time} = 0; {time} < {end}; {time}++) {{\n{}\n}}\n{close}return 0;\n}}\n",
            place.0,
            place.1,
            body.join("\n")
        )
    }
}

/// Translates program number `number`; whether it was accepted.
fn check(
    translator: &Translator,
    path: &str,
    number: u64,
    reasons: &mut BTreeMap<String, usize>,
) -> Option<bool> {
    let draw = Draw(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut fuzz = Fuzz { draw, counters: vec![], sizes: vec![], arrays: vec![], wildness: 0 };
    for _ in 0..5 {
        fuzz.draw.below(1);
    }
    fuzz.wildness = [0, 5, 10, 20, 100][fuzz.draw.below(5)];
    let scheme = [Scheme::Auto, Scheme::Step, Scheme::Step, Scheme::Tiles][fuzz.draw.below(4)];
    let options = Options { scheme, overlap: fuzz.draw.is(80), measure: fuzz.draw.is(20) };
    let program = fuzz.program();
    std::fs::write(path, &program).expect("a temporary file");
    let began = std::time::Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| translator.translate(path, &[], options)));
    if began.elapsed().as_secs() > 0 && std::env::var_os("OVERLAP_FUZZ_REASONS").is_some() {
        println!("program {number} takes {:?}: {:?}", began.elapsed(), outcome.as_ref().map(Result::is_ok));
    }
    if let Ok(Err(refusal)) = &outcome {
        let reason = refusal.message.rsplit_once('`').map_or(refusal.message.as_str(), |(_, reason)| reason);
        *reasons.entry(reason.to_string()).or_default() += 1;
    }
    match outcome {
        Ok(Ok(_)) => Some(true),
        Ok(Err(refusal)) if refusal.message.starts_with("the compiler says") => None,
        Ok(Err(refusal)) if refusal.place.is_some() => Some(false),
        Ok(Err(refusal)) => {
            panic!("program {number} is refused without a place: {}\n{program}", refusal.message)
        }
        Err(_) => panic!("program {number} makes the translation panic:\n{program}"),
    }
}

#[test]
fn no_program_makes_the_translation_panic() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (count, seed) = (number("OVERLAP_FUZZ", 300), number("OVERLAP_FUZZ_SEED", 1));
    let folder = std::env::temp_dir().join(format!("overlap-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("program.c").to_str().expect("a path in UTF-8").to_string();
    let translator = Translator::load().unwrap_or_else(|refusal| panic!("{}", refusal.message));
    let mut reasons = BTreeMap::new();
    let outcomes: Vec<Option<bool>> =
        (seed..seed + count).map(|at| check(&translator, &path, at, &mut reasons)).collect();
    std::fs::remove_dir_all(&folder).expect("the folder made above");
    let of = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    if std::env::var_os("OVERLAP_FUZZ_REASONS").is_some() {
        let mut sorted: Vec<(&String, &usize)> = reasons.iter().collect();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        sorted.iter().for_each(|(reason, count)| println!("{count} {reason}"));
    }
    println!("{} accepted, {} refused, {} are no C", of(Some(true)), of(Some(false)), of(None));
    assert!(of(Some(true)) * 20 >= outcomes.len(), "too few programs are accepted");
}
