//! An embedder with its own allocator, as `docs/how-to/embed.md` recommends: prints the pairs of instantiate and terminate
//! per second. The benchmark group `embed` runs it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    println!("{}", vnfm_benches::embed::pairs_in_a_second()?);
    Ok(())
}
