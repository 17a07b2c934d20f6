//! Names of calls and subjects that are the same in every run.

/// Replaces each UUID, which differs between runs, by `#`.
pub(crate) fn without_ids(text: &str) -> String {
    const LENGTH: usize = 36;
    let (mut left, mut without) = (text, String::new());
    while let Some(first) = left.chars().next() {
        let id = left
            .get(..LENGTH)
            .is_some_and(|part| uuid::Uuid::try_parse(part).is_ok());
        without.push(if id { '#' } else { first });
        left = &left[if id { LENGTH } else { first.len_utf8() }..];
    }
    without
}

/// The subject, if it is the same in every run.
pub(crate) fn stable(subject: &str) -> Option<String> {
    let is_id = |word: &str| {
        word.len() >= 5 && word.chars().any(|c| c.is_ascii_digit()) && !word.contains("{id}")
    };
    let of_the_cluster_from_the_beginning = subject.starts_with("standalone ");
    let varies = subject.split(['/', ' ', '-', '.']).any(is_id);
    (of_the_cluster_from_the_beginning && !varies && subject.contains('/'))
        .then(|| subject.to_owned())
}
