//! Small mutations of the saved inputs, which are the same in each run unless a seed is given.
//!
//! They find less than libFuzzer does, but need no installation, so they run with every change.

use crate::corpus;
use crate::targets::Target;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

/// Default of FUZZING_SEED.
const SEED: u64 = 20_261_104;
/// Maximum length of an input, in bytes.
const MAX_INPUT_LEN: usize = 4096;
/// Bytes that have a meaning in the language of some target.
const SPECIAL: &[u8] = b"\0\x01\t\n\r \"#$%*+-/0179:;<=>?@[\\]{}~\x7f\x80\xc3\xff";

/// Runs a target with mutated inputs.
///
/// The variable FUZZING_SEED sets another seed, and FUZZING_ROUNDS multiplies the number of inputs.
pub fn run(target: Target) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seed: u64 = number("FUZZING_SEED").unwrap_or(SEED);
    let rounds = u64::from(target.rounds) * number("FUZZING_ROUNDS").unwrap_or(1);
    let corpus: Vec<Vec<u8>> = corpus::inputs(target).into_iter().map(|(_, input)| input).collect();
    for round in 0..rounds {
        // Each round has a separate generator, so it can be repeated alone.
        let mut random = fastrand::Rng::with_seed(seed ^ round.rotate_left(40));
        let input = mutated(&corpus, &mut random);
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            let name = format!("{}-{seed}-{round}", target.name);
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            fs::write(&path, &input).expect("the input is kept");
            eprintln!("seed {seed}, round {round}; the input is in {}", path.display());
            panic::resume_unwind(panic);
        }
    }
}

/// Returns one of the inputs with some changes.
fn mutated(corpus: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut input = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..random.u32(1..8) {
        let at = random.usize(..=input.len());
        let end = (at + random.usize(..32)).min(input.len());
        match random.u8(..8) {
            0 => input.insert(at, SPECIAL[random.usize(..SPECIAL.len())]),
            1 => input.insert(at, random.u8(..)),
            2 if at < input.len() => input[at] = SPECIAL[random.usize(..SPECIAL.len())],
            3 if at < input.len() => input[at] = random.u8(..),
            4 => drop(input.drain(at..end)),
            5 => {
                let piece = input[at..end].to_vec();
                let copies = random.usize(1..4);
                (0..copies).for_each(|_| drop(input.splice(at..at, piece.iter().copied())));
            }
            6 => {
                let other = &corpus[random.usize(..corpus.len())];
                let from = random.usize(..=other.len());
                let to = (from + random.usize(..200)).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
            _ => input.truncate(at.max(input.len() / 2)),
        }
    }
    input.truncate(MAX_INPUT_LEN);
    input
}
