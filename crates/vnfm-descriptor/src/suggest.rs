//! "Did you mean": the known name that is nearest to one that nobody knows.

/// Names and lists beyond these are not compared: the effort must stay small.
const LONGEST: usize = 128;
const MOST: usize = 500;

/// The nearest of `known`, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let folded = name.to_lowercase();
    let reach = (name.chars().count() / 3).max(1);
    known
        .into_iter()
        .take(MOST)
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| {
            (
                strsim::osa_distance(&folded, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= reach)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_ignores_strangers() {
        let known = ["instantiate_end", "instantiate_start", "terminate_end"];
        assert_eq!(nearest("instantiate_edn", known), Some("instantiate_end"));
        assert_eq!(nearest("INSTANTIATE_END", known), Some("instantiate_end"));
        assert_eq!(nearest("heal", known), None);
    }
}
