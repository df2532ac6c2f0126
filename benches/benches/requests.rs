//! Benchmarks of the steps between the protocols and the model: checking a request, gathering a batch, splitting its
//! answer.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use weir_protocol::{DataType, Delivery, InferRequest, Input, Parameters, Shape, SharedRange, Source, Tensor};
use weir_runtime::backend::{BatchOutput, ShapeTolerance, Signature, TensorConfig, Timing};
use weir_runtime::internals::{Interface, Job, OutputSlice, ReadShared, ServeError};

/// Number of elements in a row, of the input and of the output.
const WIDTH: usize = 784;

/// Numbers of rows in the batches that are gathered and split.
const ROWS: [usize; 2] = [1, 32];

struct NoMemory;

impl ReadShared for NoMemory {
    fn check(&self, region: &str) -> Result<(), ServeError> {
        Err(ServeError::Invalid(format!("no region {region}")))
    }

    fn count_strings(&self, data: Bytes, _: usize) -> Result<Bytes, ServeError> {
        Ok(data)
    }

    fn read(&self, range: &SharedRange) -> Result<Bytes, ServeError> {
        Err(ServeError::Invalid(range.region.clone()))
    }
}

fn main() -> anyhow::Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    accept(&mut criterion)?;
    gather(&mut criterion)?;
    cut(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

fn tensor(name: &str) -> TensorConfig {
    TensorConfig::new(name, DataType::Fp32, vec![WIDTH as i64])
}

fn interface() -> Interface {
    Interface {
        model: "mlp".to_owned(),
        signature: Signature {
            inputs: vec![tensor("INPUT0")],
            outputs: vec![tensor("OUTPUT0")],
            max_batch_size: 32,
            tolerance: ShapeTolerance::None,
        },
        padding: None,
    }
}

fn request() -> anyhow::Result<InferRequest> {
    Ok(InferRequest {
        model: "mlp".to_owned(),
        version: String::new(),
        id: String::new(),
        parameters: Parameters::new(),
        inputs: vec![Input {
            name: "INPUT0".to_owned(),
            datatype: DataType::Fp32,
            shape: Shape::new(&[1, WIDTH as i64])?,
            source: Source::Inline(vec![0; WIDTH * 4].into()),
        }],
        outputs: Vec::new(),
        default_delivery: Delivery::Binary,
    })
}

fn accept(criterion: &mut Criterion) -> anyhow::Result<()> {
    let (interface, request) = (interface(), request()?);
    criterion.bench_function("accept", |bencher| {
        bencher.iter(|| interface.accept(black_box(request.clone()), &NoMemory));
    });
    Ok(())
}

fn gather(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("gather");
    let interface = interface();
    for rows in ROWS {
        let accepted = interface.accept(request()?, &NoMemory)?;
        let jobs: Vec<Job> = vec![accepted.job; rows];
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(BenchmarkId::from_parameter(rows), |bencher| {
            bencher.iter(|| interface.gather(black_box(&jobs)));
        });
    }
    Ok(())
}

fn cut(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("cut");
    let interface = interface();
    for rows in ROWS {
        let shape = Shape::new(&[rows as i64, WIDTH as i64])?;
        let data = Bytes::from(vec![0; rows * WIDTH * 4]);
        let output = Tensor::new("OUTPUT0".to_owned(), DataType::Fp32, shape, data)?;
        let share = OutputSlice {
            answer: Arc::new(BatchOutput { outputs: vec![output], parameters: Vec::new(), timing: Timing::default() }),
            index: rows - 1,
            first_row: rows - 1,
            rows: 1,
            batch_rows: rows,
            length: None,
        };
        group.bench_function(BenchmarkId::from_parameter(rows), |bencher| {
            bencher.iter(|| black_box(&share).output(&interface, 0));
        });
    }
    Ok(())
}
