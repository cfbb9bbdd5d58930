//! Transfer of a range of a view between a file and memory.
//!
//! The range of the stream and the memory have the same bytes in the same order. The transfer walks through
//! both, window by window: for each run in the file, the memory at the same position. Long runs go directly
//! from or to the user's memory; short ones are collected in a buffer. The size of that buffer is bounded by
//! a window.

use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use tutti_core::buffer::Buffer;
use tutti_data::Segment;
use tutti_transport::loan::Pieces;

use crate::observed;
use crate::view::View;
use tutti_storage::{Driver, Moved, Views};

/// Runs of the file in a window.
const WINDOW_RUNS: usize = 4096;
/// Bytes of a window whose runs are short.
const WINDOW_BYTES: u64 = 4 << 20;
/// Runs of the file that are this long go by themselves.
const LONG_RUN_BYTES: u64 = 64 << 10;
/// Size of the pieces in which memory with short runs is packed, so that they stay in a cache until they are
/// moved.
const STAGE_BYTES: u64 = 1 << 20;

thread_local! {
    /// Packing buffer of this thread, kept for reuse: fresh memory costs one page fault per page.
    static STAGE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Transfer between a range of a view and memory.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Driver of the file.
    pub driver: Arc<dyn Driver>,
    /// View of the file.
    pub view: Arc<View>,
    /// First byte of the range, in the stream of the view.
    pub stream: u64,
    /// Memory of the transfer; all of it is read or written.
    pub buffer: Buffer,
    /// True for a write to the file, false for a read.
    pub write: bool,
}

impl Transfer {
    /// Performs the transfer. A read that returns too few bytes has reached the end of the file.
    pub fn run(&self) -> Moved {
        observed::traced(self.write, self.driver.is_remote(), || self.move_all())
    }

    fn move_all(&self) -> Moved {
        if self.driver.is_stream() {
            return self.long(0, 0, self.buffer.bytes());
        }
        if let Some(driver) = self.driver.views()
            && self.view.is_disjoint()
            && self.view.layout().size() > 0
        {
            return self.by_view(driver);
        }
        let mut runs = Vec::new();
        let (mut done, end) = (0, self.buffer.bytes());
        while done < end {
            runs.clear();
            let stream = self.stream + done..self.stream + end;
            let covered = self.view.runs(stream, &mut runs, WINDOW_RUNS);
            debug_assert!(covered > 0, "a range of a view has runs");
            let moved = self.window(done, &mut runs);
            done += moved.bytes;
            if moved.fault.is_some() || moved.bytes < covered {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    /// Transfers a range of the view that the driver itself knows. Memory with long runs is passed directly,
    /// memory with short runs is packed.
    fn by_view(&self, driver: &dyn Views) -> Moved {
        let tiles = self.view.tiles();
        let coarse = self.buffer.is_coarse();
        let (mut done, end) = (0, self.buffer.bytes());
        while done < end {
            let take = if coarse { end - done } else { (end - done).min(WINDOW_BYTES) };
            let stream = self.stream + done;
            let (mut moved, mut expected) = (Moved::default(), take);
            if !coarse {
                moved = self.packed(done, take, &mut |memory| match memory {
                    Packed::Out(bytes) => driver.write_view(&tiles, stream, &[IoSlice::new(bytes)]),
                    Packed::In(bytes) => driver.read_view(&tiles, stream, &mut [IoSliceMut::new(bytes)]),
                });
            } else if self.write {
                self.buffer.read(done, take, &mut |memory| {
                    expected = memory.iter().map(|piece| piece.len() as u64).sum();
                    moved = driver.write_view(&tiles, stream, memory);
                });
            } else {
                Pieces::write(&self.buffer, done, take, &mut |memory| {
                    expected = memory.iter().map(|piece| piece.len() as u64).sum();
                    moved = driver.read_view(&tiles, stream, memory);
                });
            }
            done += moved.bytes;
            if moved.fault.is_some() || moved.bytes < expected {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    /// Moves runs of the file from or to memory, beginning at byte `position` of the memory.
    fn window(&self, position: u64, runs: &mut [Segment]) -> Moved {
        let (mut done, mut next) = (0, 0);
        while let Some(run) = runs.get(next) {
            let moved;
            let expected;
            if run.bytes >= LONG_RUN_BYTES || runs.len() == 1 {
                expected = run.bytes;
                moved = self.long(run.offset as u64, position + done, run.bytes);
                next += 1;
            } else {
                let most = if self.buffer.run().is_some() { WINDOW_BYTES } else { STAGE_BYTES };
                let (count, bytes) = short(&runs[next..], most);
                expected = bytes;
                moved = self.short(&runs[next..next + count], position + done, bytes);
                next += count;
            }
            done += moved.bytes;
            if moved.fault.is_some() || moved.bytes < expected {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    /// Transfers one run of the file.
    fn long(&self, offset: u64, position: u64, bytes: u64) -> Moved {
        let coarse = self.buffer.is_coarse();
        let mut done = 0;
        while done < bytes {
            let take = if coarse { bytes - done } else { (bytes - done).min(STAGE_BYTES) };
            let (mut moved, mut expected) = (Moved::default(), 0);
            let (place, at) = (offset + done, position + done);
            if !coarse {
                expected = take;
                moved = self.staged(place, at, take);
            } else if self.write {
                self.buffer.read(at, take, &mut |memory| {
                    expected = memory.iter().map(|piece| piece.len() as u64).sum();
                    moved = self.driver.write(place, memory);
                });
            } else {
                Pieces::write(&self.buffer, at, take, &mut |memory| {
                    expected = memory.iter().map(|piece| piece.len() as u64).sum();
                    moved = self.driver.read(place, memory);
                });
            }
            done += moved.bytes;
            if moved.fault.is_some() || moved.bytes < expected {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    /// Transfers one run of the file from or to memory with short runs.
    fn staged(&self, offset: u64, position: u64, bytes: u64) -> Moved {
        self.short(&[Segment { offset: offset as i64, bytes }], position, bytes)
    }

    /// Transfers short runs of the file, with `bytes` bytes in all.
    fn short(&self, runs: &[Segment], position: u64, bytes: u64) -> Moved {
        self.packed(position, bytes, &mut |memory| match memory {
            Packed::Out(bytes) => self.driver.scatter(runs, bytes),
            Packed::In(bytes) => self.driver.gather(runs, bytes),
        })
    }

    /// Calls `work` with the memory as one run: the memory itself, or a packed copy.
    fn packed(&self, position: u64, bytes: u64, work: &mut dyn FnMut(Packed<'_>) -> Moved) -> Moved {
        let range = position as usize..(position + bytes) as usize;
        if self.write {
            if let Some(memory) = self.buffer.run() {
                return work(Packed::Out(&memory[range]));
            }
            return staged(bytes as usize, |packed| {
                self.buffer.pack(position, packed);
                work(Packed::Out(packed))
            });
        }
        if self.buffer.run().is_some() {
            return self.buffer.with_memory(position, bytes, 1, |memory| match memory {
                [run] => work(Packed::In(run)),
                _ => Moved::default(),
            });
        }
        staged(bytes as usize, |packed| {
            let moved = work(Packed::In(packed));
            self.buffer.unpack(position, &packed[..moved.bytes as usize]);
            moved
        })
    }
}

/// One run of memory, to the file or from it.
enum Packed<'a> {
    Out(&'a [u8]),
    In(&'a mut [u8]),
}

/// Calls `work` with `bytes` bytes of the library's own memory, with undefined content.
pub(crate) fn staged<R>(bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    // A thread that ends has none any more.
    let mut stage = STAGE.try_with(Cell::take).unwrap_or_default();
    if stage.len() < bytes {
        stage.resize(bytes, 0);
    }
    let result = work(&mut stage[..bytes]);
    if stage.len() as u64 <= STAGE_BYTES {
        let _ = STAGE.try_with(|kept| kept.set(stage));
    }
    result
}

/// Returns the number of short runs at the beginning that are moved together, and their bytes. The bytes
/// exceed `most` only if the first run alone does.
fn short(runs: &[Segment], most: u64) -> (usize, u64) {
    let mut bytes = 0;
    let fits = |run: &&Segment| {
        let fits = run.bytes < LONG_RUN_BYTES && (bytes == 0 || bytes + run.bytes <= most);
        bytes += if fits { run.bytes } else { 0 };
        fits
    };
    let count = runs.iter().take_while(fits).count();
    (count, bytes)
}
