//! Speed of the machine during the run: the same work before each group and after the last, so that results of different
//! days and loads can be compared.

use std::time::Instant;

use crate::figure::Figure;

/// Numbers to sort: 64 MiB, larger than processor caches.
const NUMBERS: usize = 8 << 20;

/// Duration of each reference run, in milliseconds.
#[derive(Default)]
pub struct Yardstick(Vec<f64>);

impl Yardstick {
    /// Sorts the same numbers again.
    pub fn take(&mut self) {
        let mut state = 1_u64;
        let mut numbers: Vec<u64> = (0..NUMBERS)
            .map(|_| {
                // Knuth's linear congruential generator.
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                state
            })
            .collect();
        let began = Instant::now();
        numbers.sort_unstable();
        self.0.push(began.elapsed().as_secs_f64() * 1e3);
        std::hint::black_box(&numbers);
    }

    /// The fastest and the slowest time.
    pub fn figures(&self) -> [Figure; 2] {
        let name = |when| format!("the machine, {when}: 8 Mi numbers sorted by one thread");
        let fastest = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = self.0.iter().copied().fold(0.0, f64::max);
        [
            Figure::untargeted(name("at its fastest"), fastest, "ms"),
            Figure::untargeted(name("at its slowest"), slowest, "ms"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::Yardstick;

    #[test]
    fn it_tells_the_fastest_and_the_slowest() {
        let figures = Yardstick(vec![3.0, 1.0, 2.0]).figures();
        assert_eq!(figures.map(|figure| figure.value.to_string()), ["1", "3"]);
    }
}
