//! Other general options.

use crate::options::row::{Parsed, Row, row};

pub(super) const ROWS: &[Row] = &[
    row(&["timings"], &[], "print when each phase of the start was over", |r, _| {
        r.request.timings = true;
        Ok(())
    }),
    row(&["oversubscribe"], &[], "accepted: more ranks than cores is a normal way to run", |r, _| {
        r.request.is_within_slots = false;
        Ok(())
    }),
    row(&["allow-run-as-root"], &[], "accepted: root may run jobs", |_, _| Ok(())),
    row(&["version", "V"], &[], "print the version", |r, _| {
        r.stop = Some(Parsed::Version);
        Ok(())
    }),
    row(&["help", "h"], &[], "print this", |r, _| {
        r.stop = Some(Parsed::Help);
        Ok(())
    }),
];
