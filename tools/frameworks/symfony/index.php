<?php
// A front controller of Symfony's components, behind a proxy that it trusts, served by PHP itself.

use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Exception\ExceptionInterface;
use Symfony\Component\Routing\Matcher\UrlMatcher;
use Symfony\Component\Routing\RequestContext;
use Symfony\Component\Routing\Route;
use Symfony\Component\Routing\RouteCollection;

require 'Symfony/Component/HttpFoundation/autoload.php';
require 'Symfony/Component/Routing/autoload.php';

// Web servers set these values for a front controller. PHP's own server uses the path as the script
// name if it finds no script.
$_SERVER['SCRIPT_FILENAME'] = __FILE__;
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = '/index.php';

$routes = new RouteCollection();
$routes->add('admin', new Route('/{any}', [], ['any' => '.*'], [], 'admin.example.com'));
$routes->add('login', (new Route('/login'))->setMethods('POST'));
foreach (['things' => '/things', 'token' => '/token', 'x' => '/x', 'items' => '/items/{id}', 'keyed' => '/keyed'] as $handler => $path) {
    $routes->add($handler, (new Route($path))->setMethods('GET'));
}

$request = Request::createFromGlobals();
Request::setTrustedProxies(['127.0.0.1'], Request::HEADER_X_FORWARDED_HOST);
try {
    $context = (new RequestContext())->fromRequest($request);
    $route = (new UrlMatcher($routes, $context))->match($request->getPathInfo());
    $handler = $route['_route'];
    $handler .= match ($handler) {
        'items' => ' ' . rawurlencode($route['id']),
        'keyed' => ' ' . rawurlencode($request->headers->get('X-API-Key', '')),
        default => '',
    };
    (new Response("ran $handler", 200, ['Ran' => $handler, 'Content-Type' => 'text/plain']))->send();
} catch (ExceptionInterface) {
    (new Response('', 404))->send();
}
