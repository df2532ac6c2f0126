//! The memory allocator is jemalloc. All threads allocate and free request bodies; jemalloc reuses the buffer that was
//! freed last, which is still in the processor's cache, and returns the memory of a burst to the system.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
