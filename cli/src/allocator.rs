//! The memory allocator: jemalloc. Request bodies come and go on all threads; jemalloc hands the next one the
//! buffer that was used last, still in the processor's cache, and returns a burst's memory to the system.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
