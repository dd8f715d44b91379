//! Keeps answers of DNS for as long as their TTLs say.

use super::{Answer, LookupFailure, Question};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Answers, also negative ones, each until its TTL has passed.
#[derive(Debug)]
pub(super) struct AnswerCache {
    answers: HashMap<Question, Kept>,
    /// Maximum number of answers.
    capacity: usize,
}

#[derive(Debug)]
struct Kept {
    answer: Result<Answer, LookupFailure>,
    until: Instant,
}

impl AnswerCache {
    pub(super) fn new(capacity: usize) -> AnswerCache {
        AnswerCache { answers: HashMap::new(), capacity }
    }

    pub(super) fn get(
        &self,
        question: &Question,
        now: Instant,
    ) -> Option<Result<Answer, LookupFailure>> {
        let kept = self.answers.get(question)?;
        (now < kept.until).then(|| kept.answer.clone())
    }

    /// Keeps an answer. A full cache loses expired answers, or else the one that expires first.
    pub(super) fn insert(
        &mut self,
        question: Question,
        answer: Result<Answer, LookupFailure>,
        ttl: Duration,
        now: Instant,
    ) {
        if self.capacity == 0 || ttl.is_zero() {
            return;
        }
        if self.answers.len() >= self.capacity && !self.answers.contains_key(&question) {
            self.answers.retain(|_, kept| now < kept.until);
            if self.answers.len() >= self.capacity {
                let first = self.answers.iter().min_by_key(|(_, kept)| kept.until);
                if let Some(question) = first.map(|(question, _)| question.clone()) {
                    self.answers.remove(&question);
                }
            }
        }
        self.answers.insert(question, Kept { answer, until: now + ttl });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::RecordKind;

    fn question(number: u64) -> Question {
        Question::new(RecordKind::A, &format!("{number}.example"))
    }

    #[test]
    fn cache_is_bounded_and_loses_what_expires_first() {
        let start = Instant::now();
        let mut cache = AnswerCache::new(3);
        for number in [5, 1, 4, 3, 2] {
            let failure = Err(LookupFailure::NoRecords);
            cache.insert(question(number), failure, Duration::from_secs(number), start);
            assert!(cache.answers.len() <= 3);
        }
        let kept = |at| [1, 2, 3, 4, 5].map(|number| cache.get(&question(number), at).is_some());
        assert_eq!(kept(start), [false, true, false, true, true]);
        assert_eq!(kept(start + Duration::from_secs(4)), [false, false, false, false, true]);
    }
}
