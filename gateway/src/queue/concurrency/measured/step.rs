//! The steps of the search for a limit: each tries a larger limit, then a smaller one, and then a finer factor.

/// Factors of the steps. The last one finds the best limit within a tenth.
const FACTORS: [f64; 4] = [2.0, std::f64::consts::SQRT_2, 1.19, 1.09];
/// Index of the factor 1.19.
const SLIGHT: usize = 2;

/// One step of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Index of the factor.
    factor: usize,
    direction: Direction,
    /// Limit at which the factor's turn began.
    from: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Step {
    /// Returns the first step of a search that begins at the limit `from`. After a search that changed nothing, the
    /// largest factor is left out, because such a step costs most; from 1 no smaller factor leads to another limit.
    pub(super) fn first(from: u32, idle_searches: u32) -> Self {
        Self { factor: usize::from(idle_searches > 0 && from > 1), direction: Direction::Up, from }
    }

    /// Returns the step that tries a smaller limit although no request waits. It costs clients that the server serves
    /// well little: a sixth of their answers while it is tried.
    pub(super) fn slightly_fewer(from: u32) -> Self {
        Self { factor: SLIGHT, direction: Direction::Down, from }
    }

    /// Returns the step that tries a smaller limit with the same factor.
    pub(super) fn down(self) -> Self {
        Self { direction: Direction::Down, ..self }
    }

    /// Returns the step that tries the larger limit once more, after a smaller one was kept that is now `limit`.
    pub(super) fn back(self, limit: u32) -> Self {
        Self { direction: Direction::Up, from: limit, ..self }
    }

    /// Returns true if no smaller factor follows.
    pub(super) fn is_finest(self) -> bool {
        self.factor + 1 == FACTORS.len()
    }

    /// Returns the maximum relative standard error of a throughput with which the step can be judged: the difference
    /// that the step makes is then at least 2.5 standard errors of a comparison.
    pub(super) fn precision(self) -> f64 {
        FACTORS[self.factor].ln() / 4.0
    }

    /// Returns the limit that the step tries, which may be `limit` itself.
    pub(super) fn apply(self, limit: u32) -> u32 {
        let limit = f64::from(limit);
        let tried = match self.direction {
            Direction::Up => limit * FACTORS[self.factor],
            Direction::Down => limit / FACTORS[self.factor],
        };
        tried.round() as u32
    }

    /// Returns the step after one whose limit was not kept; `None` at the end of the search. After a larger limit was
    /// kept, smaller ones are known to be worse.
    pub(super) fn after_failure(self, limit: u32) -> Option<Self> {
        if self.direction == Direction::Up && limit <= self.from {
            return Some(self.down());
        }
        let factor = self.factor + 1;
        (factor < FACTORS.len()).then_some(Self { factor, direction: Direction::Up, from: limit })
    }
}
