//! Translation of a sequential stencil to an MPI program that hides its communication (S12: Barigou 2016,
//! chapter 4).
//!
//! A program in C marks a loop over time with `#pragma scop` ... `#pragma endscop`, or with `#pragma tutti
//! overlap` before it. The result is the same program, in which all ranks of an MPI job compute that region.
//! Each rank computes a block of one dimension of space, while values for its neighbours travel. Rank 0 alone
//! executes everything else, so that input, output, clocks and process numbers are those of one process. The
//! other ranks wait before `main`. At a region, rank 0 broadcasts the memory that it uses; after the region,
//! rank 0 has the results ([`generate`], `calls`).
//!
//! | module | content |
//! |---|---|
//! | [`clang`] | libclang, loaded at run time: a file as a tree with types, positions, constants |
//! | [`affine`], [`region`] | parser: one loop over time, nests of affine loops in it, assignments; or a refusal |
//! | [`integers`] | types of whole numbers, which sizes and loop variables must fit |
//! | [`isl`] | the integer set library, loaded at run time: sets and relations, written and read as text |
//! | [`polyhedra`] | the region as relations: schedule, accesses, dependences |
//! | [`step`], [`tiles`] | the two distributions: proofs, and the messages |
//! | [`diagonals`] | nests that are one chain, in an order in which a processor overlaps them |
//! | [`handover`] | transfer of values where the distribution changes between steps |
//! | [`generate`] | generator of readable C |
//!
//! **Copies, not shared memory.** Each rank has all parts of its arrays that a region uses. So only *flow*
//! between blocks becomes messages: `isl` finds the exact readers of each value that a statement's instance
//! has written. A value is sent when a block has computed it and another block reads it. It is unpacked
//! before it is read. A reader reads the last written value, so no message can hide a newer value (see
//! [`tiles`] and [`step`]). Both sides walk through the same sets, with the border of the blocks and the time
//! as parameters. So both know the lengths of messages. Heights, widths and borders of tiles are determined
//! at run time.
//!
//! **Two distributions.** *Step*: each nest of a step ends in messages. While they travel, the inner part of
//! the next nest that needs them is computed. It suits nests without dependences along the distributed loop.
//! *Tiles*: blocks of several steps, which slant against time by some positions in each step. Values of the
//! left neighbour arrive before the first part of a tile, values of the right one before the last part. It
//! suits all regions whose dependences point right after slanting, in place or not; `isl` proves that.
//!
//! libclang (17 or later) and libisl are loaded when the program runs: the workspace builds without them, and
//! `scripts/need.sh overlap` installs them. No crate of the run time is imported.
#![deny(unsafe_code)]

pub mod affine;
pub mod clang;
pub mod diagonals;
pub mod generate;
pub mod handover;
pub mod integers;
pub mod isl;
pub mod polyhedra;
pub mod refusal;
pub mod region;
pub mod step;
pub mod tiles;

use std::process::Command;

use refusal::Unsupported;

/// Translates the program in the file `path`, which is parsed with `flags` (`-I`, `-D`).
///
/// # Errors
/// Returns the part that cannot be translated, with its position.
pub fn translate(path: &str, flags: &[String], options: generate::Options) -> Result<String, Unsupported> {
    let flags: Vec<String> = flags.iter().cloned().chain(system_headers()).collect();
    Translator::load()?.translate(path, &flags, options)
}

/// The libraries that translate programs, loaded.
pub struct Translator {
    clang: clang::Clang,
    isl: isl::Isl,
}

impl Translator {
    /// Loads libclang and libisl.
    pub fn load() -> Result<Translator, Unsupported> {
        Ok(Translator { clang: clang::Clang::load()?, isl: isl::Isl::load()? })
    }

    /// Does the same as [`translate`], with no other `flags`.
    pub fn translate(
        &self,
        path: &str,
        flags: &[String],
        options: generate::Options,
    ) -> Result<String, Unsupported> {
        let source =
            std::fs::read_to_string(path).map_err(|error| Unsupported::general(error.to_string()))?;
        let nodes = self.clang.parse(path, flags)?;
        let file = region::File { source: &source, nodes: &nodes };
        let regions = region::read(&file)?;
        generate::program(&self.isl, path, &file, &regions, options)
    }
}

/// Returns options for the folder of the compiler's own headers (stddef.h): libclang is often installed
/// without any.
fn system_headers() -> Vec<String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let asked = Command::new(compiler).arg("-print-file-name=include").output();
    let folder = asked
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    folder.map(|folder| vec!["-isystem".to_string(), folder.trim().to_string()]).unwrap_or_default()
}
