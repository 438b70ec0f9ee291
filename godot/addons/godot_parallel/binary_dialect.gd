extends RefCounted
## Requests and answers as packed frames: docs/protocol.md, "Binary frames".

const Codec := preload("codec.gd")
const Connection := preload("connection.gd")
const Snapshot := preload("snapshot.gd")

var actions: Array[Dictionary] = []
var reset_request: Codec.ResetRequest
var call_request: Dictionary = {}

var _connection: Connection
var _codec: Codec
var _waited_us := 0


func _init(connection: Connection, codec: Codec) -> void:
	_connection = connection
	_codec = codec


## Waits for the next request. ERROR: the trainer has gone, or broke the protocol.
func receive() -> Codec.Kind:
	var started := Time.get_ticks_usec()
	var frame := _connection.read()
	_waited_us = Time.get_ticks_usec() - started
	if frame.size() < 4:
		return Codec.Kind.ERROR
	match frame.decode_u32(0):
		Codec.Kind.STEP:
			return _receive_step(frame)
		Codec.Kind.RESET:
			return _receive_reset(frame)
		Codec.Kind.CALL:
			return _receive_call(frame)
		Codec.Kind.CLOSE:
			return Codec.Kind.CLOSE
	printerr("unknown kind of frame: %d" % frame.decode_u32(0))
	return Codec.Kind.ERROR


func _receive_step(frame: PackedByteArray) -> Codec.Kind:
	if frame.size() != _codec.step_bytes():
		printerr("STEP has %d bytes, %d expected" % [frame.size(), _codec.step_bytes()])
		return Codec.Kind.ERROR
	actions = _codec.unpack_actions(frame)
	return Codec.Kind.STEP


func _receive_reset(frame: PackedByteArray) -> Codec.Kind:
	if frame.size() < 20:
		printerr("RESET has %d bytes, at least 20 expected" % frame.size())
		return Codec.Kind.ERROR
	reset_request = Codec.ResetRequest.new(frame)
	return Codec.Kind.RESET


func _receive_call(frame: PackedByteArray) -> Codec.Kind:
	var parsed: Variant = JSON.parse_string(frame.slice(4).get_string_from_utf8())
	if not parsed is Dictionary:
		printerr("CALL holds no JSON object")
		return Codec.Kind.ERROR
	call_request = parsed
	return Codec.Kind.CALL


## Sends a TRANSITION. An error text if an observation does not fit its space.
func answer(snapshot: Snapshot, header: Codec.Header) -> String:
	var started := Time.get_ticks_usec()
	var blocks: Array[PackedByteArray] = []
	var fault := _codec.pack_obs(snapshot.obs, blocks)
	if fault:
		return fault
	var tail := PackedByteArray()
	if snapshot.final_rows.size() > 0 or not snapshot.infos.is_empty():
		var final_blocks: Array[PackedByteArray] = []
		fault = _codec.pack_obs(snapshot.final_obs, final_blocks)
		if fault:
			return fault
		var info := PackedByteArray()
		if not snapshot.infos.is_empty():
			info = JSON.stringify(snapshot.infos).to_utf8_buffer()
		header.n_final = snapshot.final_rows.size()
		header.info_bytes = info.size()
		tail = Codec.tail_of(snapshot.final_rows, final_blocks, info)
	header.wait_us = _waited_us
	header.encode_us = Time.get_ticks_usec() - started
	_connection.write(
		_codec.transition(
			header, blocks, snapshot.reward, snapshot.terminated, snapshot.truncated, tail
		)
	)
	return ""


func send_returns(values: Array) -> void:
	var text := JSON.stringify({"returns": values})
	_connection.write(Codec.text_frame(Codec.Kind.RETURNS, text))


func send_error(message: String) -> void:
	_connection.write(Codec.text_frame(Codec.Kind.ERROR, message.rpad(Codec.HEADER_BYTES)))
