extends RefCounted
## The socket to the trainer: length-prefixed messages, one write each.

const MAX_FRAME_BYTES := 1 << 30
const LOOPBACK := "127.0.0.1"

var _stream := StreamPeerTCP.new()
var _spin_us := 0
var _may_block := DisplayServer.get_name() == "headless"


func _init(spin_us: int = 0) -> void:
	_spin_us = spin_us


## Tries once; false if nobody listens there.
func try_connect(port: int) -> bool:
	_stream = StreamPeerTCP.new()
	if _stream.connect_to_host(LOOPBACK, port) != OK:
		return false
	while _stream.get_status() == StreamPeerTCP.STATUS_CONNECTING:
		_stream.poll()
		OS.delay_usec(200)
	if _stream.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		return false
	_stream.set_no_delay(true)
	return true


## Tries until `seconds` are over.
func connect_within(port: int, seconds: float) -> bool:
	var deadline := Time.get_ticks_msec() + int(seconds * 1000)
	while not try_connect(port):
		if Time.get_ticks_msec() > deadline:
			return false
		OS.delay_msec(20)
	return true


## The next message without its prefix; an empty one when the trainer has gone.
func read() -> PackedByteArray:
	var prefix := _read_bytes(4)
	if prefix.size() != 4:
		return PackedByteArray()
	var length := prefix.decode_u32(0)
	if length == 0 or length > MAX_FRAME_BYTES:
		push_error("the trainer announced a message of %d bytes; not a trainer?" % length)
		return PackedByteArray()
	return _read_bytes(length)


## Writes a message that carries its own prefix.
func write(frame: PackedByteArray) -> bool:
	return _stream.put_data(frame) == OK


func read_json() -> Dictionary:
	var parsed: Variant = JSON.parse_string(read().get_string_from_utf8())
	return parsed if parsed is Dictionary else {}


func write_json(message: Dictionary) -> bool:
	return write_text(JSON.stringify(message, "", false))


func write_text(text: String) -> bool:
	var bytes := text.to_utf8_buffer()
	var frame := PackedByteArray()
	frame.resize(4)
	frame.encode_u32(0, bytes.size())
	frame.append_array(bytes)
	return write(frame)


# A blocking read costs no CPU, but it would freeze a window.
func _read_bytes(count: int) -> PackedByteArray:
	if not _may_block:
		if not _wait_for(count):
			return PackedByteArray()
	elif _spin_us > 0:
		_spin_for(count)
	var result := _stream.get_data(count)
	return result[1] if result[0] == OK else PackedByteArray()


func _spin_for(count: int) -> void:
	var until := Time.get_ticks_usec() + _spin_us
	while _stream.get_available_bytes() < count and Time.get_ticks_usec() < until:
		pass


func _wait_for(count: int) -> bool:
	while _stream.get_available_bytes() < mini(count, 1 << 16):
		_stream.poll()
		if _stream.get_status() != StreamPeerTCP.STATUS_CONNECTED:
			return false
		DisplayServer.process_events()
		OS.delay_usec(500)
	return true
