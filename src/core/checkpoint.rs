//! The whole state of the core, saved and restored.
//!
//! A restored core decides exactly as the saved one would have.
//!
//! Derived code writes the fields, so a new field cannot be forgotten. Two things are saved in
//! another way. The caller of `restore` reads the configuration again, from the same text.
//! Diagnoses are written once, since many vertices share them.

use crate::Scheduler;
use crate::queue::Diagnosis;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::rc::Rc;
use zsched_config::Config;

/// The state of a core, to be written.
#[derive(Serialize)]
pub struct Checkpoint<'s> {
    /// Which clauses have which ids.
    chains: Vec<Box<[u32]>>,
    core: &'s Scheduler,
    diagnoses: Vec<&'s Diagnosis>,
    /// The number of each vertex's diagnosis, from 1; 0 means none.
    diagnosis_numbers: Vec<u32>,
}

/// The state of a core, read again.
#[derive(Deserialize)]
pub struct SavedState {
    chains: Vec<Box<[u32]>>,
    core: Scheduler,
    diagnoses: Vec<Diagnosis>,
    diagnosis_numbers: Vec<u32>,
}

impl Scheduler {
    /// Returns its state. All actions must have been polled.
    pub fn checkpoint(&self) -> Checkpoint<'_> {
        debug_assert!(self.cx.actions().is_empty(), "a checkpoint has no decisions in it");
        let mut numbers: HashMap<*const Diagnosis, u32> = HashMap::new();
        let mut diagnoses = Vec::new();
        let mut diagnosis_numbers = Vec::with_capacity(self.queue.vertices().len());
        for (_, vertex) in self.queue.vertices().iter() {
            let Some(diagnosis) = &vertex.diagnosis else {
                diagnosis_numbers.push(0);
                continue;
            };
            let number = *numbers.entry(Rc::as_ptr(diagnosis)).or_insert_with(|| {
                diagnoses.push(&**diagnosis);
                diagnoses.len() as u32
            });
            diagnosis_numbers.push(number);
        }
        Checkpoint {
            chains: self.cx.config.known_chains(),
            core: self,
            diagnoses,
            diagnosis_numbers,
        }
    }

    /// Restores a core from its saved state.
    ///
    /// `config` is its configuration, read again from the same text. Returns `None` if state and
    /// configuration do not match.
    pub fn restore(kept: SavedState, config: Rc<Config>) -> Option<Scheduler> {
        let SavedState { chains, mut core, diagnoses, diagnosis_numbers } = kept;
        if !config.restore_chains(chains) || diagnosis_numbers.len() != core.queue.vertices().len()
        {
            return None;
        }
        core.cx.config = config;
        let diagnoses = diagnoses.into_iter().map(Rc::new).collect();
        core.queue.complete(diagnoses, diagnosis_numbers)?;
        Some(core)
    }

    /// Approximate size of a checkpoint: messages and vertices.
    pub fn size(&self) -> usize {
        self.queue.messages().len() + self.queue.vertices().len()
    }
}

/// Serialization of the random number generator: its seed.
pub mod random {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(random: &fastrand::Rng, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_u64(random.get_seed())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<fastrand::Rng, D::Error> {
        u64::deserialize(input).map(fastrand::Rng::with_seed)
    }
}
