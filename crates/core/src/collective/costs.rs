//! What this machine costs, as the launcher read it from the user's file: what algorithms are chosen by. One text a job, so
//! that all ranks choose the same.

use std::sync::{Arc, OnceLock};

use tutti_coll::Model;

use crate::process::Process;

/// The model of the job, or the defaults where nobody probed the machine.
pub fn model(process: &Process) -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let read = || {
        let text = std::str::from_utf8(process.job.model()).unwrap_or_default();
        let model = Model::parse(text).unwrap_or_else(|reason| {
            if process.rank.0 == 0 {
                eprintln!(
                    "Tutti: the model of this machine is passed over: {reason}; `tutti probe` makes a new one"
                );
            }
            Model::default()
        });
        Arc::new(model.under(&process.config))
    };
    Arc::clone(MODEL.get_or_init(read))
}
