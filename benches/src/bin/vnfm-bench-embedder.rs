//! An embedder that has picked its allocator, as `docs/how-to/embed.md` advises: prints how many pairs of instantiate and
//! terminate it makes in a second. The group `embed` of the figures calls it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    println!("{}", vnfm_benches::embed::pairs_in_a_second()?);
    Ok(())
}
