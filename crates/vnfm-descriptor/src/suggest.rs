//! "Did you mean": finds the known name that is most similar to an unknown one.

/// Longer names are not compared, to bound the effort.
const MAX_NAME_LEN: usize = 128;
/// Further candidates are ignored, to bound the effort.
const MAX_CANDIDATES: usize = 500;

/// The most similar of `known`, if at most a third of the characters differ.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME_LEN {
        return None;
    }
    let folded = name.to_lowercase();
    let max_distance = (name.chars().count() / 3).max(1);
    known
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|candidate| candidate.len() <= MAX_NAME_LEN)
        .map(|candidate| {
            (
                strsim::osa_distance(&folded, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= max_distance)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_typos_and_ignores_unrelated_names() {
        let known = ["instantiate_end", "instantiate_start", "terminate_end"];
        assert_eq!(nearest("instantiate_edn", known), Some("instantiate_end"));
        assert_eq!(nearest("INSTANTIATE_END", known), Some("instantiate_end"));
        assert_eq!(nearest("heal", known), None);
    }
}
