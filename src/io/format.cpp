#include "io/format.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace bitfold::io {
namespace {

constexpr std::string_view names[] = {"npy", "safetensors", "raw", "npz", "safetensors-index"};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

struct known {
  other_format format;
  std::vector<std::string_view> endings;  // of names
  std::vector<std::string_view> starts;   // of contents
};

const known pytorch{{"a PyTorch checkpoint",
                     "in Python: safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
                     "'x.safetensors')"},
                    {".pt", ".pth", ".ckpt"},
                    // What torch.save wrote before zip archives: a number, as a pickle of its own.
                    {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."}};
const known onnx{{"an ONNX model",
                  "in Python: numpy.savez('x.npz', **{t.name: onnx.numpy_helper.to_array(t) for t "
                  "in onnx.load(FILE).graph.initializer})"},
                 {".onnx"},
                 {}};
const known text{{"text", "in Python: numpy.save('x.npy', numpy.loadtxt(FILE, delimiter=','))"},
                 {".csv", ".tsv", ".txt", ".json", ".jsonl"},
                 {}};

const known others[] = {
    pytorch,
    onnx,
    text,
    {{"a zip archive", "unpack it"}, {".zip"}, {"PK\x03\x04", "PK\x05\x06"}},
    {{"a GGUF file",
      "in Python: numpy.savez('x.npz', **{t.name: t.data for t in gguf.GGUFReader(FILE).tensors})"},
     {".gguf"},
     {"GGUF"}},
    {{"an HDF5 file", "in Python: numpy.save('x.npy', h5py.File(FILE)[NAME][()])"},
     {".h5", ".hdf5", ".keras"},
     {"\x89HDF\r\n\x1a\n"}},
    {{"a Parquet file",
      "in Python: numpy.save('x.npy', pyarrow.parquet.read_table(FILE)[NAME].to_numpy())"},
     {".parquet"},
     {"PAR1"}},
    {{"an Arrow file",
      "in Python: numpy.save('x.npy', pyarrow.feather.read_table(FILE)[NAME].to_numpy())"},
     {".arrow", ".feather", ".ipc"},
     {"ARROW1", "FEA1"}},
    {{"an ORC file",
      "in Python: numpy.save('x.npy', pyarrow.orc.read_table(FILE)[NAME].to_numpy())"},
     {".orc"},
     {"ORC"}},
    {{"an Avro file",
      "in Python: numpy.save('x.npy', [r[NAME] for r in fastavro.reader(open(FILE, 'rb'))])"},
     {".avro"},
     {"Obj\x01"}},
    {{"a MATLAB file", "in Python: numpy.save('x.npy', scipy.io.loadmat(FILE)[NAME])"},
     {".mat"},
     {"MATLAB 5.0"}},
    {{"a NetCDF file", "in Python: numpy.save('x.npy', xarray.open_dataset(FILE)[NAME].values)"},
     {".nc"},
     {"CDF\x01", "CDF\x02", "CDF\x05"}},
    {{"a file of joblib", "in Python: numpy.save('x.npy', joblib.load(FILE))"}, {".joblib"}, {}},
    {{"a file of MessagePack",
      "in Python: numpy.savez('x.npz', **msgpack_numpy.load(open(FILE, 'rb')))"},
     {".msgpack"},
     {}},
    {{"a PaddlePaddle checkpoint",
      "in Python: numpy.savez('x.npz', **{k: v.numpy() for k, v in paddle.load(FILE).items()})"},
     {".pdparams"},
     {}},
    {{"a TensorFlow file",
      "in Python: numpy.savez('x.npz', **{v.name: v.numpy() for v in model.variables})"},
     {".tflite", ".pb", ".tfrecord"},
     {}},
    // Two bytes are the version; then a frame, or what begins a list, an object, a tuple or a dict.
    {{"a pickle", "in Python: numpy.save('x.npy', pickle.load(open(FILE, 'rb')))"},
     {".pkl", ".pickle"},
     {"\x80\x02]", "\x80\x02}", "\x80\x02(",
      "\x80\x02"
      "c",
      "\x80\x03]", "\x80\x03}", "\x80\x03(",
      "\x80\x03"
      "c",
      "\x80\x04\x95", "\x80\x05\x95"}},
    {{"compressed by gzip", "zcat FILE | bitfold reduce ... -"}, {".gz"}, {"\x1f\x8b\x08"}},
    {{"compressed by zstd", "zstdcat FILE | bitfold reduce ... -"}, {".zst"}, {"\x28\xb5\x2f\xfd"}},
    {{"compressed by xz", "xzcat FILE | bitfold reduce ... -"},
     {".xz"},
     {"\xfd"
      "7zXZ"}},
    {{"compressed by bzip2", "bzcat FILE | bitfold reduce ... -"}, {".bz2"}, {"BZh"}}};

// The first field of a protobuf is ir_version, the second producer_name, a text.
bool looks_like_onnx(std::string_view start) {
  if (start.size() < 4 || start[0] != 8 || start[1] < 1 || start[1] > 31 || start[2] != 0x12)
    return false;
  const auto producer = start.substr(4, static_cast<unsigned char>(start[3]));
  return std::all_of(producer.begin(), producer.end(),
                     [](char c) { return c >= ' ' && c <= '~'; }) &&
         start.substr(4 + producer.size()).find_first_of("\x1a\x22\x3a") == 0;
}

// Numbers with something between them.
bool looks_like_numbers(std::string_view start) {
  return start.find_first_not_of("0123456789+-.eE,; \t\r\n") == start.npos &&
         start.find_first_of("0123456789") != start.npos &&
         start.find_first_of(",;\n") != start.npos;
}

}  // namespace

std::string_view name(file_format f) { return names[static_cast<std::size_t>(f)]; }

std::optional<file_format> parse_format(std::string_view text) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<file_format>(found - std::begin(names));
}

std::optional<file_format> format_of_name(const std::filesystem::path& path) {
  const std::string file = lower_case(path.filename().string());
  // A name that is nothing but an ending is none.
  const auto ends = [&](std::string_view e) { return file.size() > e.size() && file.ends_with(e); };
  if (ends(".npy")) return file_format::npy;
  if (ends(".npz")) return file_format::npz;
  if (ends(".safetensors")) return file_format::safetensors;
  if (ends(index_ending)) return file_format::index;
  return std::nullopt;
}

std::string_view zip_entry(std::string_view start) {
  constexpr std::size_t header = 30;
  if (!start.starts_with("PK\x03\x04") || start.size() < header) return "";
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(start[i]));
  };
  return start.substr(header, byte(26) | byte(27) << 8);
}

const other_format* other_format_of_content(std::string_view start) {
  if (zip_entry(start).find("data.pkl") != start.npos) return &pytorch.format;
  for (const known& k : others)
    if (std::any_of(k.starts.begin(), k.starts.end(), [&](auto s) { return start.starts_with(s); }))
      return &k.format;
  if (looks_like_onnx(start)) return &onnx.format;
  return looks_like_numbers(start) ? &text.format : nullptr;
}

const other_format* other_format_of_name(const std::filesystem::path& path) {
  const std::string file = lower_case(path.filename().string());
  for (const known& k : others)
    if (std::any_of(k.endings.begin(), k.endings.end(), [&](auto e) { return file.ends_with(e); }))
      return &k.format;
  return nullptr;
}

}  // namespace bitfold::io
