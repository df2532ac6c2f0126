// torchvision's own library of operators needs Python and CUDA. These two operators have the same schemas and results.
// They run on the CPU, and copy tensors of a GPU there and back.
#include "vision.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

namespace weir {
namespace {

// Converts to a type that the operators compute in: half precision becomes single precision.
at::Tensor computable(const at::Tensor& tensor) {
  auto type = tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return tensor.to(at::kCPU, type).contiguous();
}

template <typename T>
struct Box {
  T left, top, right, bottom;

  T area() const {
    return (right - left) * (bottom - top);
  }
};

template <typename T>
T overlap(const Box<T>& a, const Box<T>& b) {
  T width = std::max(T(0), std::min(a.right, b.right) - std::max(a.left, b.left));
  T height = std::max(T(0), std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
  return width * height;
}

// Returns the boxes that are kept, best score first: each kept box drops the boxes whose intersection over union with
// it exceeds the threshold.
template <typename T>
std::vector<int64_t> kept_boxes(const at::Tensor& boxes, const at::Tensor& order, double threshold) {
  const auto* all = reinterpret_cast<const Box<T>*>(boxes.const_data_ptr<T>());
  const auto* ranked = order.const_data_ptr<int64_t>();
  auto count = boxes.size(0);
  std::vector<char> dropped(count, 0);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < count; ++i) {
    if (dropped[i] != 0) {
      continue;
    }
    kept.push_back(ranked[i]);
    const auto& box = all[ranked[i]];
    for (int64_t j = i + 1; j < count; ++j) {
      const auto& other = all[ranked[j]];
      T shared = overlap(box, other);
      if (dropped[j] == 0 && shared / (box.area() + other.area() - shared) > threshold) {
        dropped[j] = 1;
      }
    }
  }
  return kept;
}

at::Tensor nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold) {
  TORCH_CHECK(dets.dim() == 2 && dets.size(1) == 4, "nms: boxes should be of shape [N, 4], got ", dets.sizes());
  TORCH_CHECK(scores.dim() == 1, "nms: scores should be of shape [N], got ", scores.sizes());
  TORCH_CHECK(
      dets.size(0) == scores.size(0), "nms: there are ", dets.size(0), " boxes but ", scores.size(0), " scores");
  auto boxes = computable(dets);
  auto order = std::get<1>(scores.to(at::kCPU).sort(/*stable=*/true, /*dim=*/0, /*descending=*/true)).contiguous();
  auto kept = boxes.scalar_type() == at::kDouble ? kept_boxes<double>(boxes, order, iou_threshold)
                                                 : kept_boxes<float>(boxes, order, iou_threshold);
  return at::tensor(kept, at::kLong).to(dets.device());
}

// The interpolation of one sample: the indices of four elements of a plane, and their weights.
template <typename T>
struct Sample {
  int64_t at[4] = {0, 0, 0, 0};
  T weight[4] = {0, 0, 0, 0};
};

// A coordinate between two cells of an axis.
template <typename T>
struct Between {
  int64_t low, high;
  T fraction; // of the way from low to high

  Between(T coordinate, int64_t size) {
    T inside = std::max(coordinate, T(0));
    low = static_cast<int64_t>(inside);
    if (low >= size - 1) {
      low = high = size - 1;
      fraction = 0;
    } else {
      high = low + 1;
      fraction = inside - static_cast<T>(low);
    }
  }
};

// Interpolates one sample. A sample more than one cell outside of the plane is zero.
template <typename T>
Sample<T> sample_at(T y, T x, int64_t height, int64_t width) {
  Sample<T> sample;
  if (!(y >= -1 && y <= static_cast<T>(height) && x >= -1 && x <= static_cast<T>(width))) {
    return sample;
  }
  Between<T> row(y, height), column(x, width);
  const int64_t rows[2] = {row.low, row.high}, columns[2] = {column.low, column.high};
  const T down[2] = {1 - row.fraction, row.fraction}, across[2] = {1 - column.fraction, column.fraction};
  for (int i = 0; i < 4; ++i) {
    sample.at[i] = rows[i / 2] * width + columns[i % 2];
    sample.weight[i] = down[i / 2] * across[i % 2];
  }
  return sample;
}

struct Pooling {
  double scale;
  int64_t height, width;  // cells of the output
  int64_t sampling_ratio; // samples per cell and axis; one per pixel if not positive
  bool aligned;           // pixel centres are half a pixel off their index
};

// Samples of a cell along one axis: `count` in all, of which those in [first, end) may lie on the plane. The other
// samples are zero and are skipped, because a region far larger than the plane would have more of them than fit in
// memory.
template <typename T>
struct Axis {
  T start, step;
  int64_t count, first, end;

  Axis(T begin, T size, int64_t samples, int64_t plane) : start(begin), step(size / static_cast<T>(samples)), count(samples) {
    first = 0;
    end = std::max<int64_t>(count, 0);
    if (!(step > 0) || !std::isfinite(start) || !std::isfinite(step)) {
      return;
    }
    // A sample more than one cell outside is zero; two further cells allow for rounding.
    double from = (-3.0 - static_cast<double>(start)) / step, to = (static_cast<double>(plane) + 3.0 - start) / step;
    first = static_cast<int64_t>(std::clamp(std::floor(from), 0.0, static_cast<double>(end)));
    end = static_cast<int64_t>(std::clamp(std::ceil(to), static_cast<double>(first), static_cast<double>(end)));
  }

  T at(int64_t index) const {
    return start + (static_cast<T>(index) + T(0.5)) * step;
  }
};

// A region scaled to the plane, divided into cells of samples.
template <typename T>
struct Grid {
  T top, left, cell_height, cell_width;
  int64_t down, across; // samples in each cell

  Grid(const T* region, const Pooling& pooling) {
    T scale = static_cast<T>(pooling.scale), offset = pooling.aligned ? T(0.5) : T(0);
    left = region[1] * scale - offset;
    top = region[2] * scale - offset;
    T width = region[3] * scale - offset - left, height = region[4] * scale - offset - top;
    if (!pooling.aligned) {
      width = std::max(width, T(1));
      height = std::max(height, T(1));
    }
    cell_height = height / static_cast<T>(pooling.height);
    cell_width = width / static_cast<T>(pooling.width);
    auto samples = [&](T size) {
      if (pooling.sampling_ratio > 0) {
        return pooling.sampling_ratio;
      }
      TORCH_CHECK(std::abs(size) < MAX_CELL, "roi_align: a region has a cell of ", size, " pixels");
      return static_cast<int64_t>(std::ceil(size));
    };
    down = samples(cell_height);
    across = samples(cell_width);
  }

  // Largest cell in pixels, more than any image has. NaN fails the comparison with it too.
  static constexpr T MAX_CELL = T(1 << 24);

  // Returns the samples of one cell that may lie on the plane.
  std::vector<Sample<T>> samples(int64_t row, int64_t column, int64_t height, int64_t width) const {
    Axis<T> rows(top + static_cast<T>(row) * cell_height, cell_height, down, height);
    Axis<T> columns(left + static_cast<T>(column) * cell_width, cell_width, across, width);
    std::vector<Sample<T>> all;
    for (int64_t i = rows.first; i < rows.end; ++i) {
      for (int64_t j = columns.first; j < columns.end; ++j) {
        all.push_back(sample_at<T>(rows.at(i), columns.at(j), height, width));
      }
    }
    return all;
  }

  // Returns the number of samples of a cell, including those outside of the plane.
  T count() const {
    return std::max(T(1), static_cast<T>(std::max<int64_t>(down, 0)) * static_cast<T>(std::max<int64_t>(across, 0)));
  }
};

// Writes one cell of every channel: the mean of its `count` samples. Samples that are not in `samples` are zero.
template <typename T>
void pool_cell(const std::vector<Sample<T>>& samples, T count, const at::Tensor& image, T* cell, int64_t stride) {
  auto plane = image.size(1) * image.size(2);
  for (int64_t channel = 0; channel < image.size(0); ++channel) {
    const T* pixels = image.const_data_ptr<T>() + channel * plane;
    T sum = 0;
    for (const auto& sample : samples) {
      for (int i = 0; i < 4; ++i) {
        sum += sample.weight[i] * pixels[sample.at[i]];
      }
    }
    cell[channel * stride] = sum / count;
  }
}

template <typename T>
void pool_region(const at::Tensor& input, const T* region, const Pooling& pooling, T* output) {
  TORCH_CHECK(
      region[0] >= 0 && region[0] < static_cast<T>(input.size(0)), "roi_align: a region is of image ", region[0], " of ",
      input.size(0));
  auto index = static_cast<int64_t>(region[0]);
  auto image = input.select(0, index);
  Grid<T> grid(region, pooling);
  for (int64_t row = 0; row < pooling.height; ++row) {
    for (int64_t column = 0; column < pooling.width; ++column) {
      auto samples = grid.samples(row, column, input.size(2), input.size(3));
      auto* cell = output + row * pooling.width + column;
      pool_cell<T>(samples, grid.count(), image, cell, pooling.height * pooling.width);
    }
  }
}

template <typename T>
at::Tensor pool(const at::Tensor& input, const at::Tensor& rois, const Pooling& pooling) {
  auto output = at::zeros({rois.size(0), input.size(1), pooling.height, pooling.width}, input.options());
  auto size = input.size(1) * pooling.height * pooling.width;
  if (output.numel() == 0 || input.size(2) == 0 || input.size(3) == 0) {
    return output;
  }
  at::parallel_for(0, rois.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      pool_region<T>(input, rois.const_data_ptr<T>() + 5 * i, pooling, output.mutable_data_ptr<T>() + i * size);
    }
  });
  return output;
}

at::Tensor roi_align(
    const at::Tensor& input,
    const at::Tensor& rois,
    double spatial_scale,
    int64_t pooled_height,
    int64_t pooled_width,
    int64_t sampling_ratio,
    bool aligned) {
  TORCH_CHECK(input.dim() == 4, "roi_align: input should be of shape [N, C, H, W], got ", input.sizes());
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, "roi_align: rois should be of shape [K, 5], got ", rois.sizes());
  TORCH_CHECK(pooled_height > 0 && pooled_width > 0, "roi_align: the output should have a size");
  TORCH_CHECK(
      input.scalar_type() == rois.scalar_type(), "roi_align: input is ", input.scalar_type(), " but rois are ",
      rois.scalar_type());
  Pooling pooling{spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned};
  auto pixels = computable(input), regions = computable(rois);
  auto output = pixels.scalar_type() == at::kDouble ? pool<double>(pixels, regions, pooling)
                                                    : pool<float>(pixels, regions, pooling);
  return output.to(input.device(), input.scalar_type());
}

template <typename Kernel>
void register_absent(torch::Library& library, const char* name, const char* schema, Kernel kernel) {
  std::string full = std::string("torchvision::") + name;
  if (c10::Dispatcher::singleton().findSchema({full, ""}).has_value()) {
    return;
  }
  library.def(schema);
  library.impl(name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel));
}

} // namespace

void register_vision_operators() {
  static std::once_flag once;
  std::call_once(once, [] {
    // A fragment lets a model's library define the other operators. It is never freed, because models may hold its
    // operators.
    auto* library = new torch::Library(torch::Library::FRAGMENT, "torchvision", std::nullopt, __FILE__, __LINE__);
    register_absent(*library, "nms", "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", TORCH_FN(nms));
    register_absent(
        *library, "roi_align",
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor",
        TORCH_FN(roi_align));
  });
}

} // namespace weir
