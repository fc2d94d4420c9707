"""Definitions of the ROS 2 messages that joint logs consist of, for bags that do not hold them.

Source: the interface packages std_msgs, geometry_msgs, sensor_msgs and nav_msgs of ROS 2 Humble.
"""

TYPES: dict[str, str] = {
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "std_msgs/Bool": "bool data",
    "std_msgs/Float32": "float32 data",
    "std_msgs/Float64": "float64 data",
    "std_msgs/MultiArrayDimension": "string label\nuint32 size\nuint32 stride",
    "std_msgs/MultiArrayLayout": "std_msgs/MultiArrayDimension[] dim\nuint32 data_offset",
    "std_msgs/Float32MultiArray": "std_msgs/MultiArrayLayout layout\nfloat32[] data",
    "std_msgs/Float64MultiArray": "std_msgs/MultiArrayLayout layout\nfloat64[] data",
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w",
    "geometry_msgs/Pose": "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation",
    "geometry_msgs/PoseStamped": "std_msgs/Header header\ngeometry_msgs/Pose pose",
    "geometry_msgs/PoseWithCovariance": "geometry_msgs/Pose pose\nfloat64[36] covariance",
    "geometry_msgs/Twist": "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular",
    "geometry_msgs/TwistStamped": "std_msgs/Header header\ngeometry_msgs/Twist twist",
    "geometry_msgs/TwistWithCovariance": "geometry_msgs/Twist twist\nfloat64[36] covariance",
    "nav_msgs/Odometry": (
        "std_msgs/Header header\nstring child_frame_id\n"
        "geometry_msgs/PoseWithCovariance pose\ngeometry_msgs/TwistWithCovariance twist"
    ),
    "sensor_msgs/JointState": (
        "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n"
        "float64[] effort"
    ),
    "sensor_msgs/Imu": (
        "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\n"
        "float64[9] orientation_covariance\ngeometry_msgs/Vector3 angular_velocity\n"
        "float64[9] angular_velocity_covariance\ngeometry_msgs/Vector3 linear_acceleration\n"
        "float64[9] linear_acceleration_covariance"
    ),
}

#: Between the definitions of one text, as rosbag2 joins them.
RULE = "=" * 80


def definition(kind: str) -> bytes:
    """Return the definition of a type with those that it needs; empty for an unknown type.

    Args:
        kind: Such as `sensor_msgs/msg/JointState`.
    """
    name = kind.replace("/msg/", "/")
    if name not in TYPES:
        return b""
    parts = [TYPES[name]]
    parts += [f"{RULE}\nMSG: {needed}\n{TYPES[needed]}" for needed in _needs(name)]
    return "\n".join(parts).encode()


def _needs(name: str) -> list[str]:
    found: dict[str, None] = {}
    for line in TYPES[name].splitlines():
        inner = line.split()[0].split("[")[0]
        if inner in TYPES:
            found |= dict.fromkeys([inner, *_needs(inner)])
    return list(found)
