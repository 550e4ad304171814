<?php
// A front controller without a framework, served by PHP itself. Some applications read PATH_INFO
// and some the target; this one runs the handler that either of them selects.

function ran(string $handler): void
{
    header('Ran: ' . $handler);
    header('Content-Type: text/plain');
    echo 'ran ', $handler;
}

$paths = array_map(fn ($path) => '/' . trim($path, '/'), [
    $_SERVER['PATH_INFO'] ?? '',
    rawurldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) ?: ''),
]);
$host = strtolower(explode(':', $_SERVER['HTTP_X_FORWARDED_HOST'] ?? $_SERVER['HTTP_HOST'] ?? '')[0]);
$method = $_SERVER['REQUEST_METHOD'] === 'HEAD' ? 'GET' : $_SERVER['REQUEST_METHOD'];

if ($host === 'admin.example.com') {
    ran('admin');
    exit;
}
foreach ($paths as $path) {
    if ($method === 'POST' && $path === '/login') {
        ran('login');
    } elseif ($method === 'GET' && in_array($path, ['/things', '/token', '/x'], true)) {
        ran(substr($path, 1));
    } elseif ($method === 'GET' && preg_match('#^/items/([^/]+)$#', $path, $match)) {
        ran('items ' . rawurlencode($match[1]));
    } elseif ($method === 'GET' && $path === '/keyed') {
        ran('keyed ' . rawurlencode($_SERVER['HTTP_X_API_KEY'] ?? ''));
    } else {
        continue;
    }
    exit;
}
http_response_code(404);
