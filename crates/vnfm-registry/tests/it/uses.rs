//! The uses of images, in Debian's `docker-registry`.

use crate::image::{Blobs, image};
use crate::running::Running;
use vnfm_registry::{ErrorKind, GivenUp, Image, ImageUser, Registry, RegistryError};

fn user(instance: &str) -> ImageUser {
    ImageUser {
        installation: "6b0f9c1e-5a0e-4a53-9d0b-0c8f4f8d7a11".into(),
        instance: instance.into(),
    }
}

fn used_by(image: &Image, instance: &str) -> Image {
    Image {
        user: Some(user(instance)),
        ..image.clone()
    }
}

async fn push(registry: &Registry, image: &Image, content: &Blobs, instance: &str) {
    let pushed = registry.push(&used_by(image, instance), content).await;
    assert_eq!(pushed.unwrap().removal, None);
}

/// Repeats a call while the registry fails, as it does when tags are deleted at the same time.
async fn repeated<T, F: Future<Output = Result<T, RegistryError>>>(
    mut call: impl FnMut() -> F,
) -> T {
    let mut ended = call().await;
    for _ in 0..50 {
        match &ended {
            Err(error) if error.kind == ErrorKind::Unavailable => ended = call().await,
            _ => break,
        }
    }
    ended.unwrap()
}

/// The instances that use images below `acme`.
async fn users(registry: &Registry) -> Vec<String> {
    let uses = registry.all_uses(Some("acme")).await.unwrap();
    uses.into_iter().map(|(_, one)| one.user.instance).collect()
}

#[tokio::test]
async fn the_last_user_deletes_the_image() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let registry = running.registry("hunter2");
    let (image, content) = image(b"layer");
    push(&registry, &image, &content, "one").await;
    push(&registry, &image, &content, "two").await;
    push(&registry, &image, &content, "two").await;
    assert_eq!(users(&registry).await, ["one", "two"]);
    assert_eq!(registry.all_uses(Some("other")).await.unwrap(), []);
    for (instance, expected) in [
        ("one", GivenUp::InUse),
        ("one", GivenUp::NotUsed),
        ("two", GivenUp::Deleted),
        ("two", GivenUp::NotUsed),
    ] {
        let given_up = registry.give_up(&image, &user(instance), &content).await;
        assert_eq!(given_up.unwrap(), expected, "{instance}");
        let left = registry.digest("acme/web", "1.0").await.unwrap();
        assert_eq!(left.is_some(), instance == "one", "after {instance}");
    }
    assert_eq!(users(&registry).await, Vec::<String>::new());
    push(&registry, &image, &content, "three").await;
    let again = registry.digest("acme/web", &image.digest).await.unwrap();
    assert_eq!(again, Some(image.digest));
}

#[tokio::test]
async fn an_image_of_somebody_else_stays() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let registry = running.registry("hunter2");
    let (image, content) = image(b"layer");
    registry.push(&image, &content).await.unwrap();
    push(&registry, &image, &content, "one").await;
    assert_eq!(users(&registry).await, Vec::<String>::new());
    let given_up = registry.give_up(&image, &user("one"), &content).await;
    assert_eq!(given_up.unwrap(), GivenUp::NotUsed);
    let left = registry.digest("acme/web", "1.0").await.unwrap();
    assert_eq!(left, Some(image.digest));
}

#[tokio::test]
async fn two_users_that_end_at_the_same_time_leave_nothing() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let registry = running.registry("hunter2");
    for round in 0..20 {
        let (image, content) = image(&[round; 16]);
        push(&registry, &image, &content, "one").await;
        push(&registry, &image, &content, "two").await;
        let (one, two) = (user("one"), user("two"));
        let (first, second) = tokio::join!(
            repeated(|| registry.give_up(&image, &one, &content)),
            repeated(|| registry.give_up(&image, &two, &content)),
        );
        let ends = [first, second];
        // Which of them deletes it is not always known: the registry may delete it and report a failure.
        let left = registry.digest("acme/web", &image.digest).await.unwrap();
        assert_eq!(left, None, "round {round}: {ends:?}");
        let users = users(&registry).await;
        assert_eq!(users, Vec::<String>::new(), "round {round}: {ends:?}");
    }
}

#[tokio::test]
async fn a_user_that_comes_while_the_last_one_goes_has_the_image() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let registry = running.registry("hunter2");
    for round in 0..20 {
        let (image, content) = image(&[round; 16]);
        push(&registry, &image, &content, "one").await;
        let (one, arrives) = (user("one"), used_by(&image, "two"));
        let arrival = async {
            let push = || registry.push(&arrives, &content);
            while repeated(push).await.removal.is_some() {}
        };
        let removal = repeated(|| registry.give_up(&image, &one, &content));
        tokio::join!(removal, arrival);
        let there = registry.digest("acme/web", &image.digest).await.unwrap();
        assert_eq!(there.as_ref(), Some(&image.digest), "round {round}");
        assert_eq!(users(&registry).await, ["two"], "round {round}");
        let two = user("two");
        registry.give_up(&image, &two, &content).await.unwrap();
    }
}

#[tokio::test]
async fn an_interrupted_removal_is_seen_and_completed() {
    let Some(running) = Running::start(false).await else {
        return;
    };
    let registry = running.registry("hunter2");
    let (image, content) = image(b"layer");
    push(&registry, &image, &content, "one").await;
    let digits = &image.digest["sha256:".len()..][..32];
    let marked = format!("vnfm-removing.{}.one.{digits}", user("one").installation);
    let with_mark = Image {
        tag: Some(marked.clone()),
        ..used_by(&image, "one")
    };
    // A push in place of the first steps of a removal: it leaves the same tags.
    registry.push(&with_mark, &content).await.unwrap();
    let pushed = registry.push(&used_by(&image, "two"), &content).await;
    assert_eq!(pushed.unwrap().removal, Some(marked));
    let given_up = registry.give_up(&image, &user("one"), &content).await;
    assert_eq!(given_up.unwrap(), GivenUp::InUse);
    assert_eq!(users(&registry).await, ["two"]);
    push(&registry, &image, &content, "two").await;
}

#[tokio::test]
async fn without_deletion_image_and_use_stay() {
    let Some(running) = Running::start(true).await else {
        return;
    };
    let registry = running.registry("hunter2");
    let (image, content) = image(b"layer");
    push(&registry, &image, &content, "one").await;
    let given_up = registry.give_up(&image, &user("one"), &content).await;
    assert_eq!(given_up.unwrap(), GivenUp::NotAllowed);
    assert_eq!(users(&registry).await, ["one"]);
    push(&registry, &image, &content, "two").await;
}
