//! Store of the latest diagnosis texts.
//!
//! Records of paged-out messages refer to them by number.

use crate::admission::paged_message::{MAX_TEXT_NUMBER, TextNumber};
use crate::queue::Diagnosis;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Maximum number of texts that are stored for paged-out messages.
const MAX_TEXTS: usize = 1000;

/// The latest diagnosis texts.
#[derive(Default, Serialize, Deserialize)]
pub struct DiagnosisStore {
    texts: VecDeque<Rc<Diagnosis>>,
    /// Number of the first text, less one.
    before: TextNumber,
    numbers: BTreeMap<u64, TextNumber>,
}

impl DiagnosisStore {
    /// Stores a text and returns its number.
    pub fn store(&mut self, text: &Rc<Diagnosis>) -> TextNumber {
        let hash = text.hash();
        if let Some(number) = self.numbers.get(&hash)
            && self.find(*number).is_some_and(|kept| kept == *text)
        {
            return *number;
        }
        if self.texts.len() >= MAX_TEXTS
            && let Some(oldest) = self.texts.pop_front()
        {
            self.before = following(self.before);
            let oldest = oldest.hash();
            if self.numbers.get(&oldest) == Some(&self.before) {
                self.numbers.remove(&oldest);
            }
        }
        self.texts.push_back(text.clone());
        let number = (self.before + self.texts.len() as u32 - 1) % MAX_TEXT_NUMBER + 1;
        self.numbers.insert(hash, number);
        number
    }

    /// Panics if there are too many texts, or numbers of texts that are gone.
    pub fn check(&self) {
        assert!(self.texts.len() <= MAX_TEXTS, "{} texts", self.texts.len());
        assert!(self.numbers.len() <= self.texts.len(), "numbers of texts that are gone");
    }

    /// All texts with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (TextNumber, &Rc<Diagnosis>)> {
        let number = |index: usize| (self.before + index as u32) % MAX_TEXT_NUMBER + 1;
        self.texts.iter().enumerate().map(move |(index, text)| (number(index), text))
    }

    pub fn find(&self, number: TextNumber) -> Option<Rc<Diagnosis>> {
        // The number after the last one is 1.
        let index = match number > self.before {
            true => number - self.before - 1,
            false => (number + MAX_TEXT_NUMBER).checked_sub(self.before + 1)?,
        };
        self.texts.get(index as usize).filter(|_| number > 0).cloned()
    }
}

fn following(number: TextNumber) -> TextNumber {
    if number == MAX_TEXT_NUMBER { 1 } else { number + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_latest_and_drop_oldest() {
        for before in [0, MAX_TEXT_NUMBER - 1500, MAX_TEXT_NUMBER] {
            let mut texts = DiagnosisStore { before, ..DiagnosisStore::default() };
            let text = |n: usize| Diagnosis::of_scheduler(&format!("text {n}"));
            let numbers: Vec<TextNumber> = (0..3000).map(|n| texts.store(&text(n))).collect();
            assert_eq!(texts.store(&text(2990)), numbers[2990], "one that is known");
            for (n, number) in numbers.into_iter().enumerate() {
                let kept = (n >= 2000).then(|| text(n));
                assert_eq!(texts.find(number), kept, "{n}");
            }
            assert_eq!(texts.find(0), None);
            assert_eq!(texts.numbers.len(), MAX_TEXTS);
        }
    }
}
